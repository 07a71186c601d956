package wallet_test

import (
	"errors"
	"testing"

	"example.com/service/store"
	"example.com/service/wallet"
)

// contended is a store in which another instance acts right after an account was read: no goroutines, no luck.
type contended struct {
	*store.Memory
	rivals []func()
}

func (c *contended) Get(id string) (store.Account, error) {
	account, err := c.Memory.Get(id)
	if len(c.rivals) > 0 {
		rival := c.rivals[0]
		c.rivals = c.rivals[1:]
		rival()
	}
	return account, err
}

// start returns an instance on a contended store with accounts of 100 cents, and a second instance on the same accounts.
func start(t *testing.T) (*contended, *wallet.Service, *wallet.Service) {
	t.Helper()
	accounts := &contended{Memory: store.NewMemory()}
	other := wallet.New(accounts.Memory)
	for _, id := range []string{"ann", "bob"} {
		if err := other.Open(id); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Deposit(id, 100); err != nil {
			t.Fatal(err)
		}
	}
	return accounts, wallet.New(accounts), other
}

func balance(t *testing.T, c *contended, id string, want int64) {
	t.Helper()
	account, err := c.Memory.Get(id)
	if err != nil || account.Cents != want {
		t.Errorf("%s holds %d cents, %v, want %d", id, account.Cents, err, want)
	}
}

func TestDepositIsNotLost(t *testing.T) {
	accounts, s, other := start(t)
	accounts.rivals = []func(){func() { other.Deposit("ann", 30) }}
	if got, err := s.Deposit("ann", 5); err != nil || got != 135 {
		t.Errorf("deposit: got %d, %v, want 135", got, err)
	}
	balance(t, accounts, "ann", 135)
}

func TestBalanceIsNotSpentTwice(t *testing.T) {
	accounts, s, other := start(t)
	accounts.rivals = []func(){func() { other.Withdraw("ann", 80) }}
	if _, err := s.Withdraw("ann", 80); !errors.Is(err, wallet.ErrInsufficient) {
		t.Errorf("second withdrawal of 80 cents from 100: got %v", err)
	}
	balance(t, accounts, "ann", 20)
}

func TestSeveralRivals(t *testing.T) {
	accounts, s, other := start(t)
	for range 4 {
		accounts.rivals = append(accounts.rivals, func() { other.Deposit("ann", 10) })
	}
	if got, err := s.Withdraw("ann", 1); err != nil || got != 139 {
		t.Errorf("withdrawal: got %d, %v, want 139", got, err)
	}
	balance(t, accounts, "ann", 139)
}

func TestTransferAmongRivals(t *testing.T) {
	accounts, s, other := start(t)
	accounts.rivals = []func(){
		func() { other.Withdraw("ann", 10) },
		func() {},
		func() { other.Deposit("bob", 7) },
	}
	if err := s.Transfer("ann", "bob", 50); err != nil {
		t.Fatal(err)
	}
	balance(t, accounts, "ann", 40)
	balance(t, accounts, "bob", 157)
}

func TestMissingAccount(t *testing.T) {
	_, s, _ := start(t)
	if _, err := s.Deposit("nobody", 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deposit to nobody: got %v", err)
	}
}

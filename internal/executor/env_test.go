package executor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlaceEnvIsAnAllowList(t *testing.T) {
	t.Parallel()
	env, err := placeEnv(HostOptions{
		Work: "/w", Home: "/h", Tmp: "/t", Token: "cell1",
		Host: []string{"PATH=/usr/bin", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "HOME=/root", "TERM=xterm", "USER=root", "LD_PRELOAD=x.so",
			"GITHUB_TOKEN=s", "ACTIONS_RUNTIME_URL=u", "SSH_AUTH_SOCK=/s", "DOCKER_HOST=d", "GIT_DIR=/g", "AWS_SECRET_ACCESS_KEY=k", "PATHEXT=x", "NAKED"},
		Env: []string{"TZ=Asia/Tokyo", "GOCACHE=/c", "EMPTY=", "EQUALS=a=b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ASSAY_CELL=cell1", "EMPTY=", "EQUALS=a=b", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GOCACHE=/c",
		"HOME=/h", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/usr/bin", "TERM=dumb", "TMPDIR=/t", "TZ=Asia/Tokyo"}
	if diff := cmp.Diff(want, listEnv(env)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestAddEnvRefuses(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"", "NAKED", "=value", "A=\x00", "A\x00=b", "GITHUB_OUTPUT=x", "ACTIONS_CACHE_URL=x", "RUNNER_TEMP=x",
		"INPUT_SUITE=x", "NPM_TOKEN=x", "_TOKEN=x", "SSH_AUTH_SOCK=x", "DOCKER_HOST=x", "ASSAY_CELL=x"} {
		env := map[string]string{}
		if err := addEnv(env, []string{v}); err == nil || len(env) > 0 {
			t.Errorf("addEnv(%q) = %v, %v; want an error", v, env, err)
		}
	}
}

func TestForbiddenEnvIsNoWiderThanItSays(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"GITHUB", "TOKEN", "TOKENS", "MY_TOKEN_FILE", "INPUT", "DOCKER", "XGITHUB_X", "HOME", "GIT_DIR"} {
		if ForbiddenEnv(name) {
			t.Errorf("ForbiddenEnv(%q) = true", name)
		}
	}
}

func FuzzAddEnv(f *testing.F) {
	for _, v := range []string{"A=b", "A=", "=", "", "A", "A=\x00", "GITHUB_X=1", "X_TOKEN=1", "A=b=c", "\xff=\xfe"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		env := map[string]string{}
		if addEnv(env, []string{v}) != nil {
			return
		}
		list := listEnv(env)
		if len(list) != 1 || list[0] != v {
			t.Fatalf("%q became %q", v, list)
		}
		name, _, _ := strings.Cut(v, "=")
		if name == "" || ForbiddenEnv(name) || strings.Contains(v, "\x00") {
			t.Fatalf("%q was accepted", v)
		}
	})
}

package executor
import ("testing";"os";"fmt";"bytes";"os/exec")
func BenchmarkZBareWrite(b *testing.B) {
	d := b.TempDir(); text := bytes.Repeat([]byte("x"),200)
	for i:=0; b.Loop(); i++ { os.WriteFile(fmt.Sprintf("%s/f%d", d, i), text, 0o644) }
}
func BenchmarkZWriteRename(b *testing.B) {
	d := b.TempDir(); text := bytes.Repeat([]byte("x"),200)
	for i:=0; b.Loop(); i++ { os.WriteFile(fmt.Sprintf("%s/t%d", d, i), text, 0o644); os.Rename(fmt.Sprintf("%s/t%d", d, i),fmt.Sprintf("%s/f%d", d, i)) }
}
func BenchmarkZRootWrite(b *testing.B) {
	d := b.TempDir(); text := bytes.Repeat([]byte("x"),200)
	r,_ := os.OpenRoot(d)
	for i:=0; b.Loop(); i++ { r.WriteFile(fmt.Sprintf("f%d",  i), text, 0o644) }
}
func BenchmarkZReexec(b *testing.B) {
	for b.Loop() { c := exec.Command(self("")[0], "supervise"); c.Env=[]string{}; c.Run() }
}

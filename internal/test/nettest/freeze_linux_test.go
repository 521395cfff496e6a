package nettest

import (
	"os/exec"
	"testing"
)

// A process that ends before it is stopped is not waited for.
func TestFreezeOfTheDead(t *testing.T) {
	c := exec.Command("true")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Wait() })
	_, _ = out.Read(make([]byte, 1)) // it ends; nothing has waited for it, so its number stays
	Freeze(t, c.Process.Pid)
}

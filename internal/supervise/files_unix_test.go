//go:build unix

package supervise

import (
	"os"
	"testing"
)

// A File without a descriptor is an error, and no other descriptor is closed.
func TestHoldWithoutFile(t *testing.T) {
	if f, err := holdDescriptor(-1, "none"); f != nil || err == nil {
		t.Errorf("holdDescriptor: %v, %v", f, err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if f, err := hold(file); f != nil || err == nil {
		t.Errorf("hold: %v, %v", f, err)
	}
	if f := inherited(-1, "none"); f != nil {
		t.Errorf("inherited: %v", f)
	}
	if isListener(-1) || isPipe(-1) {
		t.Error("no descriptor is a listener, or a pipe")
	}
}

package prefork

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The resident memory agrees with /proc/self/status.
func TestResident(t *testing.T) {
	var u usage
	if n := u.resident(); n != 0 {
		t.Errorf("%d bytes before it is open", n)
	}
	u.open()
	defer u.close()
	status, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	defer status.Close()
	want := uint64(0)
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if text, isIt := strings.CutPrefix(lines.Text(), "VmRSS:"); isIt {
			fmt.Sscan(text, &want)
			want *= 1024
		}
	}
	if got := u.resident(); got < want/2 || got > want*2 {
		t.Errorf("%d bytes, about %d are in use", got, want)
	}
}

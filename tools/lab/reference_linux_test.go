package lab

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestLabReference(t *testing.T) {
	if _, err := process.Compile(t.Context(), t.TempDir(), "empty", []byte("int main(void) { return 0; }")); errors.Is(err, process.ErrNoCompiler) {
		t.Skip(err)
	}
	folder := t.TempDir()
	out, err := exec.Command(binary, "lab", "reference", "--conns", "200", "--duration", "100ms", "--out", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if l := &r.Load; r.Connect.Made != 200 || l.Sweeps < 1 || l.Completed != uint64(200*l.Sweeps) || l.ServerCPU <= 0 || l.ClientCPU <= 0 ||
		r.Memory.Worked.Server.RSS == 0 || r.Errors() != 0 {
		t.Errorf("%s", text)
	}
	if !strings.Contains(string(out), "# reference: 200 connections") {
		t.Errorf("it prints %s", out)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: what does not compile on one platform is found there, also in a test.
func TestCheck(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{
		"go.mod":          "module example.org/m\n\ngo 1.26\n",
		"m.go":            "package m\n\nimport \"net\"\n\nvar Dial = net.Dial\n\nconst big = 1 << 40\n",
		"m_windows.go":    "package m\n\nfunc f() int { return missing }\n",
		"m_386.go":        "package m\n\nvar n int = big\n",
		"m_test.go":       "package m\n\nvar test = Dial\n",
		"m_plan9_test.go": "package m\n\nfunc g() { unused := 1 }\n",
		"x_plan9_test.go": "package m_test\n\nimport \"example.org/m\"\n\nvar x = m.Big\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for platform, want := range map[string][]string{
		"linux/amd64":   nil,
		"windows/amd64": {"m_windows.go:3:23: undefined: missing"},
		"linux/386":     {"m_386.go:3:13: cannot use big"},
		"plan9/arm":     {"m_plan9_test.go:3:12: declared and not used: unused", "x_plan9_test.go:5:11: undefined: m.Big"},
		"linux/none":    {"no such processor"},
	} {
		err := check(folder, platform, []string{"./..."})
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v", platform, err)
		}
		for _, text := range want {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v; it lacks %q", platform, err, text)
			}
		}
	}
	if err := check(folder, "linux/amd64", []string{"net"}); err == nil {
		t.Error("packages of others are enough")
	}
}

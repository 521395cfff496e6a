package archtest

import (
	"os"
	"strings"
	"testing"
)

// TestRepository is what this package is for.
func TestRepository(t *testing.T) {
	found, err := check(os.DirFS("../../.."), repositoryRules())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// A rule is about a folder that is there.
func TestRulesAreNeeded(t *testing.T) {
	for name := range packageRules() {
		folder := "../../../" + strings.TrimSuffix(name, "/...")
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("there is a rule for %s, which is not there", name)
		}
	}
}

package archtest

import (
	"os"
	"testing"
)

// TestRepository is what this package is for.
func TestRepository(t *testing.T) {
	found, err := check(os.DirFS("../.."), repositoryRules())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

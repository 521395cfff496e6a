package archtest

import (
	"maps"
	"os"
	"slices"
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

// A rule, and an exception from one, is about a folder that is there.
func TestRulesAreNeeded(t *testing.T) {
	names := slices.Concat(slices.Collect(maps.Keys(packageRules())), slices.Collect(maps.Keys(uncovered())))
	for _, name := range names {
		folder := "../../../" + strings.TrimSuffix(name, "/...")
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("there is a rule for %s, which is not there", name)
		}
	}
}

// TestCoverage looks at the profiles in the folder SLUICE_COVERAGE, which the steps race and
// cover of .ci/run make.
func TestCoverage(t *testing.T) {
	profiles := os.Getenv("SLUICE_COVERAGE")
	if profiles == "" {
		t.Skip("without profiles: run .ci/run cover")
	}
	found, err := checkCoverage(os.DirFS("../../.."), os.DirFS(profiles), repositoryRules())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

package archtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// Each case gives profiles for the good repository, of which root and satellite have ten
// statements in two blocks each, and wants the violations that hold these texts.
func TestRuleOfCoverage(t *testing.T) {
	const root = "example.com/m/root.go:1.2,3.4 8 %d\nexample.com/m/root.go:5.6,7.8 2 %d\n"
	const satellite = "example.com/m/satellite/satellite.go:1.2,3.4 9 1\nexample.com/m/satellite/satellite.go:5.6,7.8 1 0\n"
	both := fmt.Sprintf(root, 1, 2) + satellite
	for _, c := range []struct {
		name      string
		profiles  []string
		uncovered map[string]string
		want      []string
	}{
		{"all", []string{both}, nil, nil},
		{"at the limit", []string{fmt.Sprintf(root, 1, 0) + satellite}, nil, nil},
		{"below it", []string{fmt.Sprintf(root, 0, 7) + satellite}, nil, []string{".: [coverage] its own tests reach 2 of 10 statements, less than 80 %"}},
		{"two test programs of one profile", []string{fmt.Sprintf(root, 0, 1) + satellite + fmt.Sprintf(root, 1, 0)}, nil, nil},
		{"two profiles", []string{fmt.Sprintf(root, 1, 0), satellite + fmt.Sprintf(root, 0, 1)}, nil, nil},
		{"not measured", []string{fmt.Sprintf(root, 1, 1)}, nil, []string{"satellite: [coverage] its own tests reach 0 of 0"}},
		{"nothing measured", nil, nil, []string{".: ", "satellite: "}},
		{"exception", []string{fmt.Sprintf(root, 1, 1)}, map[string]string{"satellite": "tests use it"}, nil},
		{"exception for what is below", []string{fmt.Sprintf(root, 1, 1)}, map[string]string{"satellite/...": "tests use it"}, []string{"satellite: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			repo := goodRepository()
			function := "\n\nfunc f() { println() }\n"
			for _, dir := range []string{"", "satellite/", "test/server/"} { // the last one is of tests
				repo[dir+"f.go"] = &fstest.MapFile{Data: []byte("package f" + function)}
			}
			repo["internal/pure/f.go"] = &fstest.MapFile{Data: []byte("//go:build race\n\npackage pure" + function)}
			delete(repo, "cmd/main.go")
			delete(repo, "tables.go")
			profiles := fstest.MapFS{"other": {Data: []byte("not a profile")}}
			for i, text := range c.profiles {
				profiles[fmt.Sprint(i, ".cover")] = &fstest.MapFile{Data: []byte("mode: set\n" + text)}
			}
			r := fixtureRules()
			r.minCoverage, r.uncovered = 80, c.uncovered
			found, err := checkCoverage(repo, profiles, r)
			if err != nil || len(found) != len(c.want) {
				t.Fatalf("found %v, %v, want %d violations", found, err, len(c.want))
			}
			for i, v := range found {
				if !strings.HasPrefix(v.String(), c.want[i]) {
					t.Errorf("found %v, want %s", v, c.want[i])
				}
			}
		})
	}
}

func TestUnreadableProfile(t *testing.T) {
	for _, line := range []string{"example.com/m/root.go:1.2,3.4 8", "example.com/m/root.go:1.2,3.4 x 1", "FAIL"} {
		profiles := fstest.MapFS{"a.cover": {Data: []byte("mode: set\n" + line + "\n")}}
		if _, err := checkCoverage(goodRepository(), profiles, fixtureRules()); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}

package report

import (
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := slices.Clone(c.values)
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("Median reordered %v", before)
		}
	}
}

func TestRatio(t *testing.T) {
	if got := Ratio(Ratios([]float64{1, 3, 2}, []float64{2, 2, 2})); got != "1.00 (0.50–1.50)" {
		t.Errorf("got %q", got)
	}
	if got := Ratio(Ratios([]float64{1}, []float64{0})); got != "-" {
		t.Errorf("got %q", got)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := Table(&out, []string{"name", "ns"}, [][]string{{"a", "1000"}, {"longer", "7"}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(strings.TrimSpace(lines[1]), "a ") || len(lines[1]) != len(lines[2]) {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestHeaderNamesTheCommand(t *testing.T) {
	var out strings.Builder
	Header(&out, "go run ./x")
	for _, want := range []string{"command: go run ./x\n", "commit: ", "machine: ", "go:      go1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

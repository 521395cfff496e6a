package command

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestRounds(t *testing.T) {
	turns := make([]int, 2)
	take := func(i int, warmsUp bool) (int, error) {
		if turns[i]++; warmsUp != (turns[i] == 1) {
			t.Errorf("turn %d of %d warms up: %v", turns[i], i, warmsUp)
		}
		return 10*i + turns[i], nil
	}
	got, err := Rounds("x", 2, []string{"a", "b"}, take)
	if err != nil || !slices.Equal(got["a"], []int{2, 3}) || !slices.Equal(got["b"], []int{12, 13}) {
		t.Errorf("samples %v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := Rounds("x", 1, []string{"a"}, func(int, bool) (int, error) { return 0, broken }); !errors.Is(err, broken) || !strings.Contains(err.Error(), "a: ") {
		t.Errorf("error %v", err)
	}
}

func TestChoose(t *testing.T) {
	name := func(s string) string { return s }
	if got, err := Choose("case", "^a", []string{"ab", "ba", "ac"}, name); err != nil || !slices.Equal(got, []string{"ab", "ac"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"(", "none"} {
		if got, err := Choose("case", bad, []string{"a"}, name); err == nil {
			t.Errorf("%q chooses %q", bad, got)
		}
	}
}

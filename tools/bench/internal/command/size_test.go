package command

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"512B": 512, "1KiB": KiB, "10MiB": 10 * MiB, "2GiB": 2 * GiB} {
		var got Size
		if err := got.Set(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %d (%v), %v", text, int64(got), got, err)
		}
	}
	if got := (1024 * KiB).String(); got != "1MiB" {
		t.Errorf("1024 KiB are %s", got)
	}
	for _, bad := range []string{"", "10", "MiB", "0B", "-1KiB", "1.5MiB", "1mib", "99999999999GiB"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q: %v without an error", bad, got)
		}
	}
}

package uri

import "testing"

// TestErrorTexts: the texts quote what was refused, so that it cannot break a line of a log.
func TestErrorTexts(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{EscapeError("%4\n"), `sluice: invalid url escape "%4\n"`},
		{InvalidHostError("a b:\r"), `sluice: invalid host "a b:\r"`},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%T: %s, want %s", test.err, got, test.want)
		}
	}
}

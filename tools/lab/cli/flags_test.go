package cli

import (
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, "1e-3": time.Millisecond, "5s": 5 * time.Second, "500ms": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, "24h": 24 * time.Hour, "0s": 0, "1e9": 1e9 * time.Second, "1ns": 1,
	} {
		var d time.Duration
		if err := SecondsOf(&d, time.Hour).Set(text); err != nil || d != want {
			t.Errorf("%q: %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "x", "5x", "-5", "-1s", "NaN", "inf", "-inf", "1e10", "1e300", "-1e300", "1e-10", "5 s", "9999999999h"} {
		d := time.Duration(7)
		if err := (*Seconds)(&d).Set(text); err == nil || d != 7 {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

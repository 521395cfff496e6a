//go:build linux

package member

import (
	"encoding/hex"
	"testing"
)

func TestCheckStatus(t *testing.T) {
	for block, isOK := range map[string]bool{
		"88": true, "8861": true, "2088": true, "3fe11f88": true, "203fe11f88be": true,
		"": false, "89": false, "20": false, "3f": false, "3fe1": false, "3fe11f": false, "0803323030": false,
	} {
		text, err := hex.DecodeString(block)
		if err != nil {
			t.Fatal(err)
		}
		if got := checkStatus(text); (got == nil) != isOK {
			t.Errorf("%s: %v", block, got)
		}
	}
}

func TestStreamerRequests(t *testing.T) {
	var s streamer
	for _, want := range []string{
		"0000080105" + "00000001" + "82868441036c6162",
		"0000040105" + "00000003" + "828684be",
		"0000040105" + "00000005" + "828684be",
	} {
		if got := hex.EncodeToString(s.appendRequest(nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package prefers

import (
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestPrefers(t *testing.T) {
	for _, c := range []struct {
		accept     string
		html, json bool
	}{
		{"", false, false},
		{"*/*", false, false}, // curl
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true, false}, // a browser
		{"application/json", false, true},
		{"Application/JSON ; charset=utf-8", false, true},
		{"text/plain, text/html;q=0.5", false, false},
		{"text/html;q=0.4, application/json;q=0.5", false, true},
		{"text/html;q=0", false, false},
		{"text/html;Q=1.0, application/json", false, false},
		{"text/html;q=much, application/json;q=0.1", false, true},
		{"text/*;q=0.3, application/json;q=0.2", false, false},
	} {
		var h sluice.RequestHeader
		h.Set("Accept", c.accept)
		if HTML(&h) != c.html || JSON(&h) != c.json {
			t.Errorf("%q: HTML %v, JSON %v", c.accept, HTML(&h), JSON(&h))
		}
	}
}

package http3

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func lines(all ...string) (lines [][]byte) {
	for _, line := range all {
		lines = append(lines, []byte(line))
	}
	return lines
}

// TestReadAltSvc: the fields of RFC 7838 section 3, and what is none.
func TestReadAltSvc(t *testing.T) {
	day := 24 * time.Hour
	for _, tc := range []struct {
		lines string // separated by |
		port  string
		age   time.Duration
		kind  altSvcKind
	}{
		{`h3=":443"`, "443", day, altSvcHTTP3},
		{`h3=":443"; ma=60`, "443", time.Minute, altSvcHTTP3},
		{` h3=":8443" ; ma=3600 ; persist=1 `, "8443", time.Hour, altSvcHTTP3},
		{`h3="a.example:443"`, "443", day, altSvcHTTP3},
		{`h3="A.EXAMPLE:443"`, "443", day, altSvcHTTP3},
		{`h2=":444", h3=":443"; ma=1, h3=":445"`, "443", time.Second, altSvcHTTP3},
		{`h2=":444"|h3=":443"`, "443", day, altSvcHTTP3},
		{`,, h3=":443" ,`, "443", day, altSvcHTTP3},
		{`h3-29=":443"; ma=5, h3=":444"; v="a\"b"; MA="7"`, "444", 7 * time.Second, altSvcHTTP3},
		{`h3=":\4\43"`, "443", day, altSvcHTTP3},
		{`h3=":443"; ma=99999999999999999999`, "443", maxAge, altSvcHTTP3},
		{`w=":80", h3=":443"`, "443", day, altSvcHTTP3},

		{`clear`, "", 0, altSvcNone},
		{`h3=":443"|clear`, "", 0, altSvcNone},
		{`h2=":443"`, "", 0, altSvcNone},
		{`h3="b.example:443"`, "", 0, altSvcNone},
		{`h3=":443"; ma=0`, "", 0, altSvcNone},
		{`H3=":443"`, "", 0, altSvcNone}, // names of protocols are bytes

		{``, "", 0, altSvcInvalid},
		{`,`, "", 0, altSvcInvalid},
		{`h3`, "", 0, altSvcInvalid},
		{`h3=`, "", 0, altSvcInvalid},
		{`h3=:443`, "", 0, altSvcInvalid},
		{`h3=":443`, "", 0, altSvcInvalid},
		{`h3="443"`, "", 0, altSvcInvalid},
		{`h3=":0"`, "", 0, altSvcInvalid},
		{`h3=":65536"`, "", 0, altSvcInvalid},
		{`h3=":+443"`, "", 0, altSvcInvalid},
		{`h3=":443" ma=1`, "", 0, altSvcInvalid},
		{`h3=":443"; ma`, "", 0, altSvcInvalid},
		{`h3=":443"; ma=`, "", 0, altSvcInvalid},
		{`h3=":443"; ma=-1`, "", 0, altSvcInvalid},
		{`h3=":443"; ma=""`, "", 0, altSvcInvalid},
		{`h3=":443";`, "", 0, altSvcInvalid},
		{`h3=":443", clear`, "", 0, altSvcInvalid},
		{`h3=":443" h2=":443"`, "", 0, altSvcInvalid},
		{`h3 =":443"`, "", 0, altSvcInvalid},
		{"h3=\":44\x003\"", "", 0, altSvcInvalid},
	} {
		alt, kind := readAltSvc(lines(strings.Split(tc.lines, "|")...), "a.example")
		if alt.port != tc.port || alt.age != tc.age || kind != tc.kind {
			t.Errorf("%s: %v, kind %d", tc.lines, alt, kind)
		}
	}
}

// FuzzReadAltSvc: whatever comes, a result is a port and an age within the bounds, and it stands
// in what it was read from.
func FuzzReadAltSvc(f *testing.F) {
	f.Add(`h3=":443"; ma=60, h2="x:1"; persist=1`, "a.example")
	f.Add(`clear`, "")
	f.Add(`h3="[::1]:443"`, "::1")
	f.Fuzz(func(t *testing.T, line, host string) {
		alt, kind := readAltSvc(lines(line), host)
		if (kind == altSvcHTTP3) != (alt.port != "") || alt.age < 0 || alt.age > maxAge {
			t.Fatalf("%q: %v, %d", line, alt, kind)
		}
		if kind != altSvcHTTP3 {
			return
		}
		again, kind := readAltSvc(lines(fmt.Sprintf(`h3=":%s"; ma=%d`, alt.port, alt.age/time.Second)), host)
		if again != alt || kind != altSvcHTTP3 {
			t.Fatalf("%v became %v", alt, again)
		}
	})
}

// TestOrigins: what is remembered of servers, and for how long.
func TestOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o origins
		const addr = "a.example:443"
		expect := func(what, port string) {
			t.Helper()
			if got := o.port(addr, ""); got != port {
				t.Errorf("%s: port %q, want %q", what, got, port)
			}
		}
		learn := func(line string) { o.learn(addr, "a.example", lines(line), nil) }
		expect("unknown", "")
		if got := o.port(addr, "443"); got != "443" {
			t.Errorf("assumed: %q", got)
		}
		o.failed(addr)
		if got := o.port(addr, "443"); got != "" {
			t.Errorf("assumed, and broken: %q", got)
		}
		time.Sleep(firstBroken)
		o.worked(addr)
		learn(`h3=":444"; ma=60`)
		expect("known", "444")
		time.Sleep(59 * time.Second)
		expect("still known", "444")
		learn(`nonsense`)
		expect("after nonsense", "444")
		time.Sleep(time.Second)
		expect("expired", "")
		learn(`h3=":443"; ma=31536000`)
		expect("known again", "443")
		learn(`clear`)
		expect("cleared", "")
		if len(o.known) != 0 {
			t.Errorf("the table still has %v", o.known)
		}

		learn(`h3=":443"; ma=31536000`)
		pause := firstBroken
		for range 12 {
			o.failed(addr)
			expect("broken", "")
			learn(`h3=":443"; ma=31536000`)
			expect("broken, although it was said again", "")
			time.Sleep(pause - time.Second)
			expect("still broken", "")
			time.Sleep(time.Second)
			expect("not broken any more", "443")
			pause = min(2*pause, longestBroken)
		}
		o.worked(addr)
		o.failed(addr)
		time.Sleep(firstBroken)
		expect("the first failure after it has worked", "443")
		learn(`clear`)
		o.failed(addr)
		o.worked(addr)
		if got := o.port(addr, "443"); got != "" {
			t.Errorf("broken, although another connection has worked: %q", got)
		}
	})
}

// TestOriginsAge: what a cache has kept since its response was made holds for a shorter time (RFC
// 7838 section 3.1).
func TestOriginsAge(t *testing.T) {
	for age, left := range map[string]time.Duration{
		"": 60, "0": 60, "59": 1, "60": 0, "99999999999999999999": 0, "-1": 60, "1, 2": 60, "x": 60,
	} {
		synctest.Test(t, func(t *testing.T) {
			var o origins
			o.learn("a:443", "a", lines(`h3=":444"; ma=60`), []byte(age))
			for _, step := range []struct {
				at      time.Duration
				isKnown bool
			}{{0, left > 0}, {left*time.Second - 1, left > 0}, {left * time.Second, false}} {
				time.Sleep(max(step.at, 0))
				if got := o.port("a:443", ""); (got != "") != step.isKnown {
					t.Errorf("Age %q, after %v: port %q", age, step.at, got)
				}
				o = origins{}
				o.learn("a:443", "a", lines(`h3=":444"; ma=60`), []byte(age))
			}
		})
	}
}

// TestOriginsBound: there are never more than maxOrigins.
func TestOriginsBound(t *testing.T) {
	var o origins
	for i := range 2 * maxOrigins {
		o.learn(fmt.Sprint(i), "a", lines(`h3=":443"`), nil)
		if len(o.known) > maxOrigins {
			t.Fatal(len(o.known))
		}
	}
	if o.port(fmt.Sprint(2*maxOrigins-1), "") == "" {
		t.Error("the last one was not remembered")
	}
}

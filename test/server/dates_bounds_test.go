package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// expiry returns the Expires that a cookie with that date gets.
func expiry(t *testing.T, date string) time.Time {
	t.Helper()
	var c sluice.Cookie
	if err := c.Parse("a=b; Expires=" + date); err != nil {
		t.Fatalf("%q: %v", date, err)
	}
	return c.Expire()
}

// TestCookieDateDelimiters: exactly the bytes of RFC 6265 section 5.1.1 separate
// the parts of a date.
func TestCookieDateDelimiters(t *testing.T) {
	const delimiters = "\t !\"#$%&'()*+,-./<=>?@[\\]^_`{|}~" // and ';', which ends the attribute
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for c := range 256 {
		b := string([]byte{byte(c)})
		date := "06" + b + "Nov" + b + b + "1994" + b + "08:49:37" + b
		if got := expiry(t, date); got.Equal(want) != strings.Contains(delimiters, b) {
			t.Errorf("%q: %v", date, got)
		}
	}
}

// TestCookieDateBounds: each number at its limits and one beyond.
func TestCookieDateBounds(t *testing.T) {
	for date, want := range map[string]string{
		"6 Nov 1994 8:9:7":               "1994-11-06 08:09:07",
		"06 November 1994 08:49:37x":     "1994-11-06 08:49:37",
		"12345 6 Nov 1994 08:49:37":      "1994-11-06 08:49:37", // no part has five digits
		"6 Nov 94 08:49:37":              "1994-11-06 08:49:37",
		"6 Nov 69 08:49:37":              "2069-11-06 08:49:37",
		"6 Nov 70 08:49:37":              "1970-11-06 08:49:37",
		"6 Nov 99 08:49:37":              "1999-11-06 08:49:37",
		"6 Nov 00 08:49:37":              "2000-11-06 08:49:37",
		"6 Nov 100 08:49:37":             "",
		"6 Nov 1600 08:49:37":            "",
		"6 Nov 1601 08:49:37":            "1601-11-06 08:49:37",
		"6 Nov 9999 23:59:59":            "9999-11-06 23:59:59",
		"6 Nov 19994 08:49:37":           "",
		"6 Nov 1994 24:00:00":            "",
		"6 Nov 1994 23:60:00":            "",
		"6 Nov 1994 23:00:60":            "",
		"0 Nov 1994 23:00:00":            "",
		"1 Jan 1994 00:00:00":            "1994-01-01 00:00:00",
		"31 Dec 1994 00:00:00":           "1994-12-31 00:00:00",
		"32 Dec 1994 00:00:00":           "",
		"31 Nov 1994 00:00:00":           "",
		"6 No 1994 08:49:37":             "",
		"6 Nov 1994 08:49":               "",
		"6 Nov 1994 08:49:":              "",
		"6 Nov 1994 08:49:123":           "",
		"6 Nov 1994 08:49:37 09:00:00":   "1994-11-06 08:49:37",
		"6 Nov 1994 7 Dec 1995 08:49:37": "1994-11-06 08:49:37",
		"1994 08:49:37 Nov 6":            "1994-11-06 08:49:37",
		"6 1994 08:49:37":                "",
		"Nov 1994 08:49:37":              "",
		"6 Nov 08:49:37":                 "",
		"":                               "",
	} {
		got := expiry(t, date)
		if text := got.Format(time.DateTime); got != sluice.CookieExpireUnlimited && text != want || got == sluice.CookieExpireUnlimited && want != "" {
			t.Errorf("%q: %s, want %q", date, text, want)
		}
	}
}

// TestHTTPDateBounds: each number at its limits and one beyond.
func TestHTTPDateBounds(t *testing.T) {
	for date, want := range map[string]bool{
		"Sun, 06 Jan 1994 00:00:00 GMT": true, "Sat, 06 Dec 1994 23:59:59 GMT": true, "Sun, 06 Nov 0000 00:00:00 GMT": true,
		"Sun, 06 Nov 1994 24:00:00 GMT": false, "Sun, 06 Nov 1994 23:60:00 GMT": false, "Sun, 06 Nov 1994 23:59:60 GMT": false,
		"Sun, 01 Nov 1994 00:00:00 GMT": true, "Sun, 00 Nov 1994 00:00:00 GMT": false, "Sun, 32 Jan 1994 00:00:00 GMT": false,
		"Sunday, 06-Jan-94 00:00:00 GMT": true, "Saturday, 06-Dec-94 23:59:59 GMT": true, "Sat, 06-Dec-94 23:59:59 GMT": false,
		"Sat Dec 31 23:59:59 1994": true, "Sat Dec 32 23:59:59 1994": false, "Sun Jan  0 00:00:00 1994": false, "Sun Jan  1 00:00:00 0000": true,
	} {
		if got, err := sluice.ParseHTTPDate([]byte(date)); (err == nil) != want || want == got.IsZero() {
			t.Errorf("%q: %v, %v", date, got, err)
		}
	}
	// A year of two digits is of the past if it would be more than 50 years ahead.
	now := time.Now().UTC().Truncate(time.Second)
	near, far := now.AddDate(50, -1, 0), now.AddDate(50, 1, 0)
	if far.Year()/100 != now.Year()/100 {
		t.Skip("in the next century")
	}
	for date, want := range map[time.Time]time.Time{near: near, far: far.AddDate(-100, 0, 0)} {
		if got, err := sluice.ParseHTTPDate([]byte(date.Format("Monday, 02-Jan-06 15:04:05 GMT"))); err != nil || got.Format(time.DateTime) != want.Format(time.DateTime) {
			t.Errorf("%v is read as %v, %v", date, got, err)
		}
	}
}

// A date that was written is read back, to the second and in whatever zone it was.
func TestDatesRoundTrip(t *testing.T) {
	for _, date := range []time.Time{
		time.Date(2009, time.November, 10, 23, 0, 0, 999, time.UTC),
		time.Date(1999, time.December, 31, 23, 30, 0, 0, time.FixedZone("", -5400)),
		time.Date(2024, time.February, 29, 0, 0, 1, 0, time.FixedZone("", 12*3600)),
	} {
		text := sluice.AppendHTTPDate([]byte("> "), date)
		if want := "> " + date.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"); string(text) != want {
			t.Errorf("%v is written %q, want %q", date, text, want)
		}
		if got, err := sluice.ParseHTTPDate(text[2:]); err != nil || !got.Equal(date.Truncate(time.Second)) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

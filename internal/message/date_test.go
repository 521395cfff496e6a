package message

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestHTTPDates(t *testing.T) {
	for _, date := range []time.Time{
		{}, time.Unix(0, 0), time.Date(1994, 11, 6, 8, 49, 37, 999, time.UTC), time.Date(2024, 2, 29, 23, 59, 59, 0, time.FixedZone("x", -7200)),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		got, want := string(AppendDate([]byte("x"), date)), "x"+date.UTC().Format(http.TimeFormat)
		if got != want {
			t.Errorf("%v: %q, want %q", date, got, want)
		}
		parsed, err := ParseDate([]byte(got[1:]))
		if err != nil || !parsed.Equal(date.Truncate(time.Second)) || parsed.Format(time.RFC1123) != got[1:] {
			t.Errorf("%q is read as %v, %v", got[1:], parsed, err)
		}
	}
	for _, year := range []int{-1, 10000, 123456} {
		date := time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC)
		if got, want := string(AppendDate(nil, date)), date.Format(http.TimeFormat); got != want {
			t.Errorf("year %d: %q, want %q", year, got, want)
		}
	}
}

func TestParseHTTPDateFormats(t *testing.T) {
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun Nov 06 08:49:37 1994", "sun, 06 nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT", "Sunday, 06-Nov-94 8:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 UTC", "Sun Nov 6 08:49:37 1994", "Sun Nov 6 8:49:37 1994"} {
		if got, err := ParseDate([]byte(s)); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for s, location := range map[string]string{
		"Sun, 06 Nov 1994 08:49:37 GMT": "GMT", "Sunday, 06-Nov-94 08:49:37 GMT": "GMT", "Sun Nov  6 08:49:37 1994": "UTC",
	} {
		if got, err := ParseDate([]byte(s)); err != nil || got.Location().String() != location {
			t.Errorf("%q: location %v, %v", s, got.Location(), err)
		}
	}
	// A year of two digits is never more than 50 years ahead.
	near := time.Now().UTC().AddDate(50, 0, -1).Truncate(time.Second)
	far := time.Now().UTC().AddDate(50, 0, 1).Truncate(time.Second)
	const layout = "Monday, 02-Jan-06 15:04:05 GMT"
	if got, err := ParseDate([]byte(near.Format(layout))); err != nil || got.Sub(near) != 0 && near.Year()/100 == time.Now().Year()/100 {
		t.Errorf("%v is read as %v, %v", near, got, err)
	}
	if got, err := ParseDate([]byte(far.Format(layout))); err != nil || !got.Equal(far.AddDate(-100, 0, 0)) && far.Year()/100 == time.Now().Year()/100 {
		t.Errorf("%v is read as %v, %v", far, got, err)
	}
}

func TestParseHTTPDateRefuses(t *testing.T) {
	for _, s := range []string{"", "x", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 gmt", "Sun, 06 Nov 1994 08:49:37 GMT ",
		" Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Xxx, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
		"Sun, 06 Nov 1994 +8:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 PST",
		"Sun Nov  6 08:49:37 94xx", "Sun Nov 6", "Sun, 06 Nov 1994 :49:37 GMT", "Sun, 06 Nov 1994 008:49:37 GMT", "Sunday, 06-Nov-94 UTC", "Sun Nov 6 8:49 1994", "Sun Nov  a 08:49:37 1994", "Sun Nov    08:49:37 1994", "Sun, 06 Nov 1994 08:49:3\x00 GMT"} {
		if got, err := ParseDate([]byte(s)); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

// TestParseHTTPDateLooksAtAll: a date with any other byte in any place is none.
func TestParseHTTPDateLooksAtAll(t *testing.T) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun Nov 6 8:49:37 1994"} {
		for i := range len(s) {
			changed := []byte(s)
			changed[i] = '!'
			if got, err := ParseDate(changed); err == nil {
				t.Errorf("%q: %v", changed, got)
			}
		}
	}
}

func TestCookieDates(t *testing.T) {
	want := time.Date(2009, 11, 10, 23, 0, 5, 0, time.UTC)
	for _, s := range []string{
		"Tue, 10 Nov 2009 23:00:05 GMT", "Tue, 10-Nov-2009 23:00:05 GMT", "Tuesday, 10-Nov-09 23:00:05 GMT", "Tue Nov 10 23:00:05 2009",
		"10 nov 2009 23:00:05", "2009 November 10 23:00:05", "23:0:5 10 NOV 09", "Tue, 10 Nov 2009 23:00:05 +0200", "10/Nov/2009/23:00:05Z",
	} {
		if got, ok := parseCookieDate([]byte(s)); !ok || !got.Equal(want) {
			t.Errorf("%q: %v, %v", s, got, ok)
		}
	}
	for s, year := range map[string]int{"1 Jan 70 0:0:0": 1970, "1 Jan 69 0:0:0": 2069, "1 Jan 99 0:0:0": 1999, "1 Jan 00 0:0:0": 2000, "1 Jan 1601 0:0:0": 1601} {
		if got, ok := parseCookieDate([]byte(s)); !ok || got.Year() != year {
			t.Errorf("%q: %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "x", "0", "10 Nov 2009", "10 2009 23:00:05", "Nov 2009 23:00:05", "10 Nov 23:00:05", "10 Nov 9 23:00:05", "10 Nov 20099 23:00:05",
		"31 Feb 2009 23:00:05", "0 Nov 2009 23:00:05", "32 Nov 2009 23:00:05", "10 Nov 2009 24:00:05", "10 Nov 2009 23:60:05", "10 Nov 2009 23:00:60",
		"10 Nov 1600 23:00:05", "10 Nov 2009 23:00", "10 Nov 2009 230:00:05", "10 Nov 2009 23:00:005"} {
		if got, ok := parseCookieDate([]byte(s)); ok {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

// TestCookieDateDelimiters of RFC 6265 section 5.1.1.
func TestCookieDateDelimiters(t *testing.T) {
	for c := range 256 {
		want := strings.IndexByte("\t !\"#$%&'()*+,-./;<=>?@[\\]^_`{|}~", byte(c)) >= 0
		if got := isDateDelimiter(byte(c)); got != want {
			t.Errorf("%q: %v", rune(c), got)
		}
	}
}

func TestHTTPDatesDoNotAllocate(t *testing.T) {
	buf, date := make([]byte, 0, 64), time.Now()
	n := testing.AllocsPerRun(100, func() {
		buf = AppendDate(buf[:0], date)
		if _, err := ParseDate(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseDate(buf[1:]); err == nil {
			t.Fatal("accepted")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDates compares with net/http, which reads the three formats too.
func FuzzDates(f *testing.F) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 31 Feb 1994 08:49:37 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = parseCookieDate([]byte(s))
		got, err := ParseDate([]byte(s))
		if err != nil {
			return
		}
		want, httpErr := http.ParseTime(s)
		// net/http places years of two digits differently.
		if httpErr != nil || !got.Equal(want) && got.AddDate(100, 0, 0).Unix() != want.Unix() && got.AddDate(-100, 0, 0).Unix() != want.Unix() {
			t.Fatalf("%q is read as %v, net/http says %v, %v", s, got, want, httpErr)
		}
	})
}

func BenchmarkAppendDate(b *testing.B) {
	buf, date := make([]byte, 0, 64), time.Now()
	for b.Loop() {
		buf = AppendDate(buf[:0], date)
	}
}

func BenchmarkParseDate(b *testing.B) {
	date := []byte("Sun, 06 Nov 1994 08:49:37 GMT")
	for b.Loop() {
		if _, err := ParseDate(date); err != nil {
			b.Fatal(err)
		}
	}
}

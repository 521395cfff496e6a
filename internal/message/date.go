package message

import (
	"errors"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

const (
	weekdayNames = "SunMonTueWedThuFriSat"
	monthNames   = "JanFebMarAprMayJunJulAugSepOctNovDec"

	imfDateLayout = "Mon, 02 Jan 2006 15:04:05 GMT"
)

var errDate = errors.New("sluice: malformed http date")

// gmt is the location of parsed dates with the zone GMT.
var gmt = time.FixedZone("GMT", 0)

// AppendDate appends date as an HTTP date, for example
// "Tue, 10 Nov 2009 23:00:00 GMT" (RFC 9110 section 5.6.7).
func AppendDate(dst []byte, date time.Time) []byte {
	date = date.UTC()
	year, month, day := date.Date()
	if year < 0 || year > 9999 {
		return date.AppendFormat(dst, imfDateLayout)
	}
	hour, minute, second := date.Clock()
	weekday := 3 * int(date.Weekday())
	dst = append(dst, weekdayNames[weekday:weekday+3]...)
	dst = append(dst, ", "...)
	dst = ascii.AppendTwoDigits(dst, day)
	dst = append(dst, ' ')
	dst = append(dst, monthNames[3*month-3:3*month]...)
	dst = append(dst, ' ')
	dst = ascii.AppendTwoDigits(dst, year/100)
	dst = ascii.AppendTwoDigits(dst, year%100)
	dst = append(dst, ' ')
	dst = ascii.AppendTwoDigits(dst, hour)
	dst = append(dst, ':')
	dst = ascii.AppendTwoDigits(dst, minute)
	dst = append(dst, ':')
	dst = ascii.AppendTwoDigits(dst, second)
	return append(dst, " GMT"...)
}

// ParseDate parses an HTTP date in any of the three forms of RFC 9110 section
// 5.6.7. As net/http does, it accepts an hour of one digit, the zone UTC in the form of
// RFC 850, and a day of one digit without the space in the form of asctime. The location
// of the result is GMT, or UTC for the form of asctime.
func ParseDate(date []byte) (time.Time, error) {
	t, ok := parseIMFDate(date)
	if !ok {
		t, ok = parseRFC850Date(date)
	}
	if ok {
		return t.In(gmt), nil
	}
	if t, ok = parseAsctimeDate(date); !ok {
		return time.Time{}, errDate
	}
	return t, nil
}

// parseIMFDate reads "Sun, 06 Nov 1994 08:49:37 GMT".
func parseIMFDate(s []byte) (time.Time, bool) {
	end := len(s) - len(" GMT")
	if end < len("Sun, 06 Nov 1994 ") || nameIndex(s[:3], weekdayNames) < 0 ||
		s[3] != ',' || s[4] != ' ' || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || string(s[end:]) != " GMT" {
		return time.Time{}, false
	}
	day, okDay := parseDigits(s[5:7])
	year, okYear := parseDigits(s[12:16])
	return makeDate(year, nameIndex(s[8:11], monthNames)+1, day, s[17:end], okDay && okYear)
}

// parseRFC850Date reads "Sunday, 06-Nov-94 08:49:37 GMT".
func parseRFC850Date(s []byte) (time.Time, bool) {
	weekday, s, found := ascii.Cut(s, ',')
	end := len(s) - len(" GMT")
	if !found || !isWeekdayName(weekday) || end < len(" 06-Nov-94 ") || s[0] != ' ' || s[3] != '-' || s[7] != '-' ||
		s[10] != ' ' || string(s[end:]) != " GMT" && string(s[end:]) != " UTC" {
		return time.Time{}, false
	}
	day, okDay := parseDigits(s[1:3])
	year, okYear := parseDigits(s[8:10])
	// RFC 9110 section 5.6.7: a date more than 50 years in the future is of the
	// past century.
	now := clock.Coarse().UTC()
	year += now.Year() / 100 * 100
	month := nameIndex(s[4:7], monthNames) + 1
	t, ok := makeDate(year, month, day, s[11:end], okDay && okYear)
	if ok && t.After(now.AddDate(50, 0, 0)) {
		return makeDate(year-100, month, day, s[11:end], true)
	}
	return t, ok
}

func isWeekdayName(s []byte) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if ascii.EqualFold(s, day.String()) {
			return true
		}
	}
	return false
}

// parseAsctimeDate reads "Sun Nov  6 08:49:37 1994".
func parseAsctimeDate(s []byte) (time.Time, bool) {
	if len(s) < len("Sun Nov  6 ") || nameIndex(s[:3], weekdayNames) < 0 || s[3] != ' ' || s[7] != ' ' {
		return time.Time{}, false
	}
	month := nameIndex(s[4:7], monthNames) + 1
	if s = s[8:]; s[0] == ' ' {
		s = s[1:]
	}
	dayText, s, _ := ascii.Cut(s, ' ')
	clockTime, yearText, _ := ascii.Cut(s, ' ')
	day, okDay := parseDigits(dayText)
	year, okYear := parseDigits(yearText)
	return makeDate(year, month, day, clockTime, okDay && okYear && len(dayText) <= 2 && len(yearText) == 4)
}

// nameIndex returns the index of a three-letter name among names, -1 if it is
// not one of them.
func nameIndex(name []byte, names string) int {
	for i := 0; i < len(names); i += 3 {
		if ascii.EqualFold(name, names[i:i+3]) {
			return i / 3
		}
	}
	return -1
}

func parseDigits(s []byte) (n int, ok bool) {
	for _, c := range s {
		if !ascii.Is(c, ascii.Digit) {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(s) > 0
}

// makeDate returns the time of a date and of clockTime, "15:04:05" or "5:04:05". ok
// tells whether the caller has found numbers for the date. makeDate checks their
// ranges.
func makeDate(year, month, day int, clockTime []byte, ok bool) (time.Time, bool) {
	at := len(clockTime) - len(":04:05")
	if !ok || at < 1 || at > 2 || clockTime[at] != ':' || clockTime[at+3] != ':' {
		return time.Time{}, false
	}
	hour, okHour := parseDigits(clockTime[:at])
	minute, okMinute := parseDigits(clockTime[at+1 : at+3])
	second, okSecond := parseDigits(clockTime[at+4:])
	if !okHour || !okMinute || !okSecond {
		return time.Time{}, false
	}
	return checkedDate(year, month, day, hour, minute, second)
}

// checkedDate is time.Date in UTC. It returns false if a part is out of range.
func checkedDate(year, month, day, hour, minute, second int) (time.Time, bool) {
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day // time.Date turns a day that the month does not have into another day
}

// parseCookieDate parses the date of an Expires attribute as user agents do: it
// identifies tokens by their format, in any order (RFC 6265 section 5.1.1).
func parseCookieDate(s []byte) (time.Time, bool) {
	var d cookieDate
	for len(s) > 0 {
		n := 0
		for n < len(s) && !isDateDelimiter(s[n]) {
			n++
		}
		if n == 0 {
			s = s[1:]
			continue
		}
		d.take(s[:n])
		s = s[n:]
	}
	if !d.hasTime || !d.hasDay || d.month == 0 || !d.hasYear || d.year < 1601 {
		return time.Time{}, false
	}
	return checkedDate(d.year, d.month, d.day, d.hour, d.minute, d.second)
}

func isDateDelimiter(c byte) bool {
	switch {
	case c == '\t', ' ' <= c && c <= '/', ';' <= c && c <= '@', '[' <= c && c <= '`', '{' <= c && c <= '~':
		return true
	}
	return false
}

// cookieDate collects the tokens of a cookie date.
type cookieDate struct {
	hour, minute, second     int
	day, month, year         int
	hasTime, hasDay, hasYear bool
}

// take uses token for the first missing part whose format it has.
func (d *cookieDate) take(token []byte) {
	if !d.hasTime && d.takeTime(token) {
		return
	}
	number, digits := leadingNumber(token, 4)
	switch {
	case !d.hasDay && (digits == 1 || digits == 2):
		d.day, d.hasDay = number, true
	case d.month == 0 && len(token) >= 3 && nameIndex(token[:3], monthNames) >= 0:
		d.month = nameIndex(token[:3], monthNames) + 1
	case !d.hasYear && digits >= 2 && digits <= 4:
		d.year, d.hasYear = fullYear(number), true
	}
}

// fullYear adds the century to a year below 100.
func fullYear(year int) int {
	switch {
	case year < 70:
		return year + 2000
	case year < 100:
		return year + 1900
	}
	return year
}

// takeTime reads "h:m:s", each of one or two digits, with anything after it
// that does not begin with a digit.
func (d *cookieDate) takeTime(token []byte) bool {
	var parts [3]int
	for i := range parts {
		number, digits := leadingNumber(token, 2)
		if digits == 0 {
			return false
		}
		parts[i] = number
		token = token[digits:]
		if i < 2 {
			if len(token) == 0 || token[0] != ':' {
				return false
			}
			token = token[1:]
		}
	}
	d.hour, d.minute, d.second = parts[0], parts[1], parts[2]
	d.hasTime = true
	return true
}

// leadingNumber returns the number that s begins with, and the number of its
// digits. digits is 0 if there are none, or more than most.
func leadingNumber(s []byte, most int) (number, digits int) {
	for digits < len(s) && ascii.Is(s[digits], ascii.Digit) {
		if digits == most {
			return 0, 0
		}
		number = number*10 + int(s[digits]-'0')
		digits++
	}
	return number, digits
}

package result

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Count formats a number with separators: 1,000,000.
func Count[N ~int | ~int64 | ~uint64 | ~float64](n N) string {
	digits := fmt.Sprintf("%.0f", math.Abs(float64(n)))
	var b strings.Builder
	if n < 0 {
		b.WriteByte('-')
	}
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// Bytes formats a size.
func Bytes(n float64) string {
	units := []string{"B", "kB", "MB", "GB"}
	i := 0
	for ; n >= 1000 && i < len(units)-1; i++ {
		n /= 1000
	}
	if n >= 100 || i == 0 {
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// knownBytes is Bytes, where NaN is not known.
func knownBytes(n float64) string {
	if math.IsNaN(n) {
		return "not known"
	}
	return Bytes(n)
}

// Plural formats a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Span formats a duration with three digits.
func Span(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

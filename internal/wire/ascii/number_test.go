package ascii

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

func TestAppendNumbers(t *testing.T) {
	for _, n := range []uint64{0, 1, 9, 10, 99, 100, 255, 256, 4096, math.MaxInt64, math.MaxUint64} {
		if got, want := string(AppendUint([]byte("x"), n)), "x"+strconv.FormatUint(n, 10); got != want {
			t.Errorf("AppendUint(%d) = %q", n, got)
		}
		if got, want := string(AppendHex([]byte("x"), n)), "x"+strconv.FormatUint(n, 16); got != want {
			t.Errorf("AppendHex(%d) = %q", n, got)
		}
	}
	for n := range 100 {
		if got, want := string(AppendTwoDigits(nil, n)), string([]byte{'0' + byte(n/10), '0' + byte(n%10)}); got != want {
			t.Errorf("AppendTwoDigits(%d) = %q", n, got)
		}
	}
}

func TestParseUint(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "00": 0, "7": 7, "10": 10, "0010": 10, "9223372036854775807": math.MaxInt64,
		strings.Repeat("0", 100) + "5": 5,
	} {
		if got, err := ParseUint([]byte(s)); got != want || err != nil {
			t.Errorf("ParseUint(%q) = %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]error{
		"": ErrEmptyNumber, "-1": ErrNotNumber, "+1": ErrNotNumber, " 1": ErrNotNumber, "1 ": ErrNotNumber, "1a": ErrNotNumber,
		"0x1": ErrNotNumber, "1_0": ErrNotNumber, "/": ErrNotNumber, ":": ErrNotNumber, "٣": ErrNotNumber,
		"9223372036854775808": ErrNumberRange, "18446744073709551616": ErrNumberRange, "92233720368547758070": ErrNumberRange,
		"99999999999999999999x": ErrNotNumber, "99999999999999999999": ErrNumberRange,
	} {
		if got, err := ParseUint([]byte(s)); got != -1 || !errors.Is(err, want) {
			t.Errorf("ParseUint(%q) = %d, %v, want -1, %v", s, got, err, want)
		}
	}
}

func TestParseHex(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "a": 10, "F": 15, "1A": 26, "0000000000000000000f": 15, "7fffffffffffffff": math.MaxInt64,
	} {
		if got, err := ParseHex([]byte(s)); got != want || err != nil {
			t.Errorf("ParseHex(%q) = %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]error{
		"": ErrEmptyNumber, "0x1": ErrNotNumber, "-1": ErrNotNumber, "+1": ErrNotNumber, "1 ": ErrNotNumber, "g": ErrNotNumber,
		"1_0": ErrNotNumber, "@": ErrNotNumber, "`": ErrNotNumber,
		"8000000000000000": ErrNumberRange, "ffffffffffffffff": ErrNumberRange, "10000000000000000": ErrNumberRange,
	} {
		if got, err := ParseHex([]byte(s)); got != -1 || !errors.Is(err, want) {
			t.Errorf("ParseHex(%q) = %d, %v, want -1, %v", s, got, err, want)
		}
	}
}

func TestUnhex(t *testing.T) {
	for c := range 256 {
		value, ok := Unhex(byte(c))
		place := strings.IndexByte("0123456789abcdef", Lower(byte(c)))
		if ok != (place >= 0) || ok && int(value) != place {
			t.Errorf("Unhex(0x%02x) = %d, %v", c, value, ok)
		}
	}
}

func TestParseUfloat(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "1": 1, "+1": 1, "1.": 1, ".5": .5, "1.5": 1.5, "1e3": 1000, "1E+3": 1000, "1.5e-3": .0015, "1e-400": 0,
		"1.7976931348623157e308": math.MaxFloat64,
	} {
		if got, err := ParseUfloat([]byte(s)); got != want || err != nil {
			t.Errorf("ParseUfloat(%q) = %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]error{
		"": ErrEmptyNumber, "+": ErrNotNumber, "-1": ErrNotNumber, "-0": ErrNotNumber, ".": ErrNotNumber, "e1": ErrNotNumber,
		"1e": ErrNotNumber, "1e+": ErrNotNumber, "1e1e1": ErrNotNumber, "1.2.3": ErrNotNumber, "NaN": ErrNotNumber, "inf": ErrNotNumber,
		"0x10": ErrNotNumber, "1_0": ErrNotNumber, "1 ": ErrNotNumber, " 1": ErrNotNumber, "++1": ErrNotNumber, "1e400": ErrNumberRange,
	} {
		if got, err := ParseUfloat([]byte(s)); got != -1 || !errors.Is(err, want) {
			t.Errorf("ParseUfloat(%q) = %v, %v, want -1, %v", s, got, err, want)
		}
	}
}

func TestParsingNumbersDoesNotAllocate(t *testing.T) {
	inputs := [][]byte{[]byte("123456"), []byte("1.5e3"), []byte("x"), []byte("99999999999999999999")}
	allocations := testing.AllocsPerRun(100, func() {
		for _, input := range inputs {
			_, _ = ParseUint(input)
			_, _ = ParseHex(input)
			if input[0] == '1' {
				_, _ = ParseUfloat(input)
			}
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// FuzzParseUint compares with math/big, which knows no overflow.
func FuzzParseUint(f *testing.F) {
	for _, s := range []string{"", "0", "9223372036854775807", "9223372036854775808", "12x", "-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkInteger(t, b, 10, Digit, ParseUint)
		checkInteger(t, b, 16, Hex, ParseHex)
	})
}

func checkInteger(t *testing.T, b []byte, base int, digits Class, parse func([]byte) (int64, error)) {
	got, err := parse(b)
	if len(b) == 0 || !All(b, digits) {
		if err == nil {
			t.Fatalf("base %d: %q is accepted as %d", base, b, got)
		}
		return
	}
	want, _ := new(big.Int).SetString(string(b), base)
	if (err == nil) != want.IsInt64() || err == nil && got != want.Int64() {
		t.Fatalf("base %d: %q is %d, %v, want %v", base, b, got, err, want)
	}
}

func FuzzParseUfloat(f *testing.F) {
	for _, s := range []string{"1.5e-3", ".5", "1e400", "NaN", "0x1p2", "1_0", "+1", "-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseUfloat(b)
		if err != nil {
			return
		}
		want, strconvErr := strconv.ParseFloat(string(b), 64)
		if strconvErr != nil || got != want || got < 0 || math.IsNaN(got) || math.IsInf(got, 0) {
			t.Fatalf("ParseUfloat(%q) = %v, strconv: %v, %v", b, got, want, strconvErr)
		}
	})
}

func BenchmarkParseUint(b *testing.B) {
	s := []byte("1048576")
	for b.Loop() {
		_, _ = ParseUint(s)
	}
}

func BenchmarkAppendUint(b *testing.B) {
	buf := make([]byte, 0, 32)
	for b.Loop() {
		buf = AppendUint(buf[:0], 1048576)
	}
}

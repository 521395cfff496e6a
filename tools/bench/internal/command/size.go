package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Size is a number of bytes, as a flag: "10MiB". Units are B, KiB, MiB and
// GiB.
type Size int64

// Units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var errSize = errors.New("want a size such as 512B, 1KiB, 10MiB or 2GiB")

// ParseSize reads a size. It is above zero.
func ParseSize(text string) (Size, error) {
	for _, unit := range []struct {
		name  string
		bytes Size
	}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}} {
		digits, found := strings.CutSuffix(text, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q: %w", text, errSize)
		}
		return Size(n) * unit.bytes, nil
	}
	return 0, fmt.Errorf("%q: %w", text, errSize)
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "size" }

// Set implements pflag.Value.
func (s *Size) Set(text string) (err error) {
	*s, err = ParseSize(text)
	return err
}

// String returns the size in the largest unit of which it is a multiple.
func (s Size) String() string {
	switch {
	case s == 0:
		return "0"
	case s%GiB == 0:
		return fmt.Sprintf("%dGiB", s/GiB)
	case s%MiB == 0:
		return fmt.Sprintf("%dMiB", s/MiB)
	case s%KiB == 0:
		return fmt.Sprintf("%dKiB", s/KiB)
	default:
		return fmt.Sprintf("%dB", int64(s))
	}
}

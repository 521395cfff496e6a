package sluice

import (
	"testing"
)

func TestParseByteRange(t *testing.T) {
	for _, test := range []struct {
		s          string
		length     int
		start, end int
		err        error
	}{
		{"bytes=0-1", 100, 0, 1, nil}, {"bytes=0-", 100, 0, 99, nil}, {"bytes=99-", 100, 99, 99, nil}, {"bytes=99-200", 100, 99, 99, nil},
		{"bytes=-5", 100, 95, 99, nil}, {"bytes=-200", 100, 0, 99, nil}, {"bytes=0-0", 1, 0, 0, nil}, {"BYTES=1-2", 100, 1, 2, nil},
		{"bytes=0-99999999999999999999", 100, 0, 99, nil}, {"bytes=-99999999999999999999", 100, 0, 99, nil},
		{"bytes=100-", 100, 0, 0, errRangeUnsatisfiable}, {"bytes=99999999999999999999-", 100, 0, 0, errRangeUnsatisfiable}, {"bytes=-0", 100, 0, 0, errRangeUnsatisfiable},
		{"bytes=0-", 0, 0, 0, errRangeUnsatisfiable}, {"bytes=-5", 0, 0, 0, errRangeUnsatisfiable}, {"bytes=0-", -1, 0, 0, errRangeUnsatisfiable}, {"bytes=-5", -1, 0, 0, errRangeUnsatisfiable},
		{"", 100, 0, 0, errRangeMalformed}, {"bytes", 100, 0, 0, errRangeMalformed}, {"bytes=", 100, 0, 0, errRangeMalformed}, {"bytes=-", 100, 0, 0, errRangeMalformed},
		{"bytes=5", 100, 0, 0, errRangeMalformed}, {"bytes=5-2", 100, 0, 0, errRangeMalformed}, {"bytes=--5", 100, 0, 0, errRangeMalformed}, {"bytes=1--2", 100, 0, 0, errRangeMalformed},
		{"bytes=+0-4", 100, 0, 0, errRangeMalformed}, {"bytes= 0-4", 100, 0, 0, errRangeMalformed}, {"bytes=0-4 ", 100, 0, 0, errRangeMalformed}, {"bytes =0-4", 100, 0, 0, errRangeMalformed},
		{"bytes=a-b", 100, 0, 0, errRangeMalformed}, {"bytes=0-1,3-4", 100, 0, 0, errRangeMalformed}, {"items=0-1", 100, 0, 0, errRangeMalformed}, {"bytes:0-1", 100, 0, 0, errRangeMalformed},
	} {
		start, end, err := ParseByteRange([]byte(test.s), test.length)
		if start != test.start || end != test.end || err != test.err {
			t.Errorf("%q of %d: %d, %d, %v", test.s, test.length, start, end, err)
		}
	}
}

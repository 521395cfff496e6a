package pprofhandler

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// Numbers of fields of the messages in profile.proto, which pprof's documents
// define.
const (
	profileSample   = 2
	profileMapping  = 3
	profileLocation = 4
	profileFunction = 5
	profileString   = 6
	profileDuration = 10

	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3

	labelNumber = 3

	locationAddress = 3
	locationLine    = 4
)

var errMalformedProfile = errors.New("pprofhandler: a profile of the runtime cannot be read")

// difference returns the profile after less the profile before, both in the
// format of pprof, without the samples that did not change. Samples that only
// before has are there, negated. What they refer to gets numbers behind those
// of after, so nothing has to be looked up.
func difference(before, after []byte, d time.Duration) ([]byte, error) {
	first, err := readProfile(before)
	if err != nil {
		return nil, err
	}
	last, err := readProfile(after)
	if err != nil {
		return nil, err
	}
	gone, err := first.sums()
	if err != nil {
		return nil, err
	}
	out, err := last.appendLess(nil, gone)
	if err == nil && len(gone) > 0 {
		out, err = first.appendNegated(out, gone, shifts{id: last.largestID, text: uint64(len(last.texts))})
	}
	if err != nil {
		return nil, err
	}
	out = field{number: profileDuration, value: uint64(d)}.append(out)
	return packed(out)
}

func unpacked(p []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func packed(p []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(p); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// field is a field of a protobuf message: a number, or bytes.
type field struct {
	number  uint64
	value   uint64
	bytes   []byte
	isBytes bool
}

func (f field) append(dst []byte) []byte {
	if !f.isBytes {
		return binary.AppendUvarint(binary.AppendUvarint(dst, f.number<<3), f.value)
	}
	dst = binary.AppendUvarint(dst, f.number<<3|2)
	return append(binary.AppendUvarint(dst, uint64(len(f.bytes))), f.bytes...)
}

// eachField calls use for each field of a message.
func eachField(message []byte, use func(f field) error) error {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return errMalformedProfile
		}
		message = message[n:]
		value, n := binary.Uvarint(message)
		if n <= 0 {
			return errMalformedProfile
		}
		message = message[n:]
		f := field{number: key >> 3}
		switch key & 7 {
		case 0:
			f.value = value
		case 2:
			if value > uint64(len(message)) {
				return errMalformedProfile
			}
			f.bytes, f.isBytes = message[:value], true
			message = message[value:]
		default: // profiles have no other kinds
			return errMalformedProfile
		}
		if err := use(f); err != nil {
			return err
		}
	}
	return nil
}

// shifts is what the numbers of a profile are moved by.
type shifts struct{ id, text uint64 }

// profileField returns a field of the profile that is subtracted, for the one
// that it is subtracted from. The fields about the profile as a whole are not
// wanted twice.
func (s shifts) profileField(f field) (moved field, isWanted bool, err error) {
	switch f.number {
	case profileSample:
		f.bytes, err = rewritten(f.bytes, s.sampleField)
	case profileMapping:
		f.bytes, err = s.shifted(f.bytes, isNumber(1), isNumber(5, 6))
	case profileLocation:
		f.bytes, err = rewritten(f.bytes, func(f field) (field, error) {
			if f.number == locationLine {
				var err error
				f.bytes, err = s.shifted(f.bytes, isNumber(1), isNumber())
				return f, err
			}
			return s.field(f, isNumber(1, 2), isNumber()), nil
		})
	case profileFunction:
		f.bytes, err = s.shifted(f.bytes, isNumber(1), isNumber(2, 3, 4))
	case profileString:
	default:
		return f, false, nil
	}
	return f, true, err
}

// sampleField moves the locations and the labels.
func (s shifts) sampleField(f field) (field, error) {
	var err error
	switch f.number {
	case sampleLocation:
		err = f.eachNumber(func(v uint64) uint64 { return v + s.id })
	case sampleLabel:
		f.bytes, err = s.shifted(f.bytes, isNumber(), isNumber(1, 2, 4))
	}
	return f, err
}

// eachNumber changes a repeated number, packed or alone.
func (f *field) eachNumber(change func(v uint64) uint64) error {
	if !f.isBytes {
		f.value = change(f.value)
		return nil
	}
	var out []byte
	for p := f.bytes; len(p) > 0; {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			return errMalformedProfile
		}
		p = p[n:]
		out = binary.AppendUvarint(out, change(v))
	}
	f.bytes = out
	return nil
}

// shifted moves the fields of a message that are identifiers, and those that
// are indices of strings. Zero stands for none in both.
func (s shifts) shifted(message []byte, isID, isText func(number uint64) bool) ([]byte, error) {
	return rewritten(message, func(f field) (field, error) { return s.field(f, isID, isText), nil })
}

func (s shifts) field(f field, isID, isText func(number uint64) bool) field {
	switch {
	case f.isBytes || f.value == 0:
	case isID(f.number):
		f.value += s.id
	case isText(f.number):
		f.value += s.text
	}
	return f
}

// isNumber returns whether a field has one of the numbers.
func isNumber(numbers ...uint64) func(number uint64) bool {
	return func(number uint64) bool {
		for _, n := range numbers {
			if n == number {
				return true
			}
		}
		return false
	}
}

// rewritten returns a message with each field changed.
func rewritten(message []byte, change func(f field) (field, error)) (out []byte, err error) {
	err = eachField(message, func(f field) error {
		f, err := change(f)
		if err != nil {
			return err
		}
		out = f.append(out)
		return nil
	})
	return out, err
}

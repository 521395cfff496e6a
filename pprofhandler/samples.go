package pprofhandler

import (
	"encoding/binary"
	"slices"
)

// profile is an unpacked profile, and what it takes to compare its samples with
// those of another one.
type profile struct {
	message   []byte
	texts     [][]byte
	addresses map[uint64]uint64 // of locations, by their identifiers
	largestID uint64            // of all mappings, locations and functions
}

func readProfile(compressed []byte) (*profile, error) {
	message, err := unpacked(compressed)
	if err != nil {
		return nil, err
	}
	p := &profile{message: message, addresses: make(map[uint64]uint64)}
	err = eachField(message, func(f field) error {
		switch f.number {
		case profileString:
			p.texts = append(p.texts, f.bytes)
		case profileMapping, profileLocation, profileFunction:
			var numbers [4]uint64
			err := eachField(f.bytes, func(part field) error {
				if part.number < uint64(len(numbers)) {
					numbers[part.number] = part.value
				}
				return nil
			})
			p.largestID = max(p.largestID, numbers[1])
			if f.number == profileLocation {
				p.addresses[numbers[1]] = numbers[locationAddress]
			}
			return err
		}
		return nil
	})
	return p, err
}

// sample returns the values of a sample, and a key that samples of the same
// stack and labels have in every profile of the process.
func (p *profile) sample(message []byte) (key string, values []uint64, err error) {
	var k []byte
	err = eachField(message, func(f field) error {
		switch f.number {
		case sampleLocation:
			return f.eachNumber(func(id uint64) uint64 {
				k = binary.AppendUvarint(k, p.addresses[id])
				return id
			})
		case sampleValue:
			return f.eachNumber(func(v uint64) uint64 {
				values = append(values, v)
				return v
			})
		case sampleLabel:
			k = append(k, "label"...)
			return eachField(f.bytes, func(part field) error {
				k = binary.AppendUvarint(k, part.number)
				if part.number == labelNumber {
					k = binary.AppendUvarint(k, part.value)
					return nil
				}
				if part.value >= uint64(len(p.texts)) {
					return errMalformedProfile
				}
				text := p.texts[part.value]
				k = append(binary.AppendUvarint(k, uint64(len(text))), text...)
				return nil
			})
		}
		return nil
	})
	return string(k), values, err
}

// sums returns the values of all samples by their keys.
func (p *profile) sums() (map[string][]uint64, error) {
	all := make(map[string][]uint64)
	err := eachField(p.message, func(f field) error {
		if f.number != profileSample {
			return nil
		}
		key, values, err := p.sample(f.bytes)
		if err != nil {
			return err
		}
		if sum := all[key]; len(sum) == len(values) {
			for i := range values {
				values[i] += sum[i]
			}
		}
		all[key] = values
		return nil
	})
	return all, err
}

// appendLess appends p, its samples less those in gone, which are removed from
// there. The arithmetic is that of two's complement, as in the format.
func (p *profile) appendLess(dst []byte, gone map[string][]uint64) ([]byte, error) {
	err := eachField(p.message, func(f field) error {
		switch f.number {
		case profileDuration:
			return nil
		case profileSample:
			key, values, err := p.sample(f.bytes)
			if err != nil {
				return err
			}
			for i, v := range gone[key] {
				if i < len(values) {
					values[i] -= v
				}
			}
			delete(gone, key)
			if isZero(values) {
				return nil
			}
			if f.bytes, err = withValues(f.bytes, values); err != nil {
				return err
			}
		}
		dst = f.append(dst)
		return nil
	})
	return dst, err
}

// appendNegated appends the samples of p that are left in gone, and what they
// refer to.
func (p *profile) appendNegated(dst []byte, gone map[string][]uint64, shift shifts) ([]byte, error) {
	err := eachField(p.message, func(f field) error {
		if f.number == profileSample {
			key, _, err := p.sample(f.bytes)
			if err != nil {
				return err
			}
			values := gone[key]
			delete(gone, key)
			if isZero(values) {
				return nil
			}
			for i := range values {
				values[i] = -values[i]
			}
			if f.bytes, err = withValues(f.bytes, values); err != nil {
				return err
			}
		}
		moved, isWanted, err := shift.profileField(f)
		if err == nil && isWanted {
			dst = moved.append(dst)
		}
		return err
	})
	return dst, err
}

func isZero(values []uint64) bool {
	return !slices.ContainsFunc(values, func(v uint64) bool { return v != 0 })
}

// withValues returns a sample with other values.
func withValues(sample []byte, values []uint64) (out []byte, err error) {
	err = eachField(sample, func(f field) error {
		if f.number != sampleValue {
			out = f.append(out)
		}
		return nil
	})
	list := field{number: sampleValue, isBytes: true}
	for _, v := range values {
		list.bytes = binary.AppendUvarint(list.bytes, v)
	}
	return list.append(out), err
}

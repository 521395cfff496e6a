package http2

import (
	"iter"
	"slices"
)

// openStreams holds the streams of a connection that are not over, in the order of their
// numbers, which only grow. Most of them also end in this order. With a map, a request takes 7 %
// more instructions.
type openStreams struct {
	all   []openStream // those before first were removed
	first int
}

type openStream struct {
	id     uint32
	stream *Stream
}

func (o *openStreams) count() int { return len(o.all) - o.first }

// find returns the stream with a number; nil if it is not open.
func (o *openStreams) find(id uint32) *Stream {
	if i := o.search(id); i < len(o.all) && o.all[i].id == id {
		return o.all[i].stream
	}
	return nil
}

// search returns the index of the first stream whose number is at least id. With
// slices.BinarySearchFunc a request takes 7 % more instructions.
func (o *openStreams) search(id uint32) int {
	low, high := o.first, len(o.all)
	for low < high {
		middle := int(uint(low+high) / 2)
		if o.all[middle].id < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// add adds a stream whose number is higher than those of the others.
func (o *openStreams) add(id uint32, s *Stream) {
	if len(o.all) == cap(o.all) && o.first > len(o.all)/2 {
		o.all, o.first = slices.Delete(o.all, 0, o.first), 0
	}
	o.all = append(o.all, openStream{id, s})
}

// remove removes s, and returns false if it is not open. It moves the streams on the shorter
// side.
func (o *openStreams) remove(s *Stream) (wasOpen bool) {
	i := o.first
	if i == len(o.all) || o.all[i].stream != s {
		if i = o.search(s.id); i == len(o.all) || o.all[i].stream != s {
			return false
		}
	}
	if i-o.first < len(o.all)-i {
		copy(o.all[o.first+1:i+1], o.all[o.first:i])
		o.all[o.first] = openStream{}
		o.first++
	} else {
		o.all = slices.Delete(o.all, i, i+1)
	}
	if o.first == len(o.all) {
		o.all, o.first = o.all[:0], 0
	}
	return true
}

// each returns the streams, the newest first. The loop may remove the one that it has.
func (o *openStreams) each() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		for i := len(o.all) - 1; o.first <= i && i < len(o.all); i-- {
			first := o.first
			if !yield(o.all[i].stream) {
				return
			}
			if o.first > first { // this one was removed, and the older ones moved up
				i++
			}
		}
	}
}

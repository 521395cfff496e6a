// Package values holds the user values of a request.
package values

import "io"

// A List holds values, in the order in which their keys were first set. Requests have few
// of them: a linear search is faster than a map. The zero value is empty.
type List []Entry

// An Entry is a key and its value. A key that was given as []byte is stored as
// a string: both are the same key.
type Entry struct{ Key, Value any }

// Get returns the value under key, nil if there is none.
func (l List) Get(key any) any {
	switch key := key.(type) {
	case string:
		return l.getString(key)
	case []byte:
		return l.GetBytes(key)
	}
	for i := range l {
		if l[i].Key == key {
			return l[i].Value
		}
	}
	return nil
}

func (l List) getString(key string) any {
	for i := range l {
		if k, ok := l[i].Key.(string); ok && k == key {
			return l[i].Value
		}
	}
	return nil
}

// GetBytes is Get for a key of bytes. It does not allocate a string.
func (l List) GetBytes(key []byte) any {
	for i := range l {
		if k, ok := l[i].Key.(string); ok && k == string(key) {
			return l[i].Value
		}
	}
	return nil
}

// Set stores value under key. A nil value is stored only if the key exists.
func (l *List) Set(key, value any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *l {
		if (*l)[i].Key == key {
			(*l)[i].Value = value
			return
		}
	}
	if value != nil {
		*l = append(*l, Entry{key, value})
	}
}

// Remove removes key and its value.
func (l *List) Remove(key any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *l {
		if (*l)[i].Key == key {
			last := len(*l) - 1
			copy((*l)[i:], (*l)[i+1:])
			(*l)[last] = Entry{}
			*l = (*l)[:last]
			return
		}
	}
}

// Reset removes all values and closes those that are io.Closers.
func (l *List) Reset() {
	if len(*l) != 0 {
		l.ResetWith(func(c io.Closer) { _ = c.Close() }) // no caller could act on the error
	}
}

// ResetWith removes all values and calls closeValue with those that are io.Closers.
func (l *List) ResetWith(closeValue func(io.Closer)) {
	values := *l
	for i := range values {
		if c, ok := values[i].Value.(io.Closer); ok {
			closeValue(c)
		}
	}
	clear(values)
	*l = values[:0]
}

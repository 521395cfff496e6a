package sluice

import "io"

// userValues holds the values of SetUserValue, in the order in which their keys
// were first set. Requests have few of them: a linear search is faster than a
// map.
type userValues []userValue

// userValue is a key and its value. A key that was given as []byte is stored as
// a string: both are the same key.
type userValue struct{ key, value any }

// get returns the value under key, nil if there is none.
func (u userValues) get(key any) any {
	switch key := key.(type) {
	case string:
		return u.getString(key)
	case []byte:
		return u.getBytes(key)
	}
	for i := range u {
		if u[i].key == key {
			return u[i].value
		}
	}
	return nil
}

func (u userValues) getString(key string) any {
	for i := range u {
		if k, ok := u[i].key.(string); ok && k == key {
			return u[i].value
		}
	}
	return nil
}

// getBytes is getString for bytes. It does not allocate a string.
func (u userValues) getBytes(key []byte) any {
	for i := range u {
		if k, ok := u[i].key.(string); ok && k == string(key) {
			return u[i].value
		}
	}
	return nil
}

// set stores value under key. A nil value is stored only if the key exists.
func (u *userValues) set(key, value any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *u {
		if (*u)[i].key == key {
			(*u)[i].value = value
			return
		}
	}
	if value != nil {
		*u = append(*u, userValue{key, value})
	}
}

// remove removes key and its value.
func (u *userValues) remove(key any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *u {
		if (*u)[i].key == key {
			last := len(*u) - 1
			copy((*u)[i:], (*u)[i+1:])
			(*u)[last] = userValue{}
			*u = (*u)[:last]
			return
		}
	}
}

// reset removes all values and closes those that are io.Closers.
func (u *userValues) reset() {
	if len(*u) == 0 {
		return
	}
	values := *u
	for i := range values {
		if c, ok := values[i].value.(io.Closer); ok {
			_ = c.Close() // no caller could act on the error
		}
	}
	clear(values)
	*u = values[:0]
}

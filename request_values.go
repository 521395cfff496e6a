package sluice

import (
	"io"

	"github.com/sluicehttp/sluice/internal/server/route"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// UserValue returns the value that SetUserValue stored under key, or nil if
// there is none. A string and a []byte with the same bytes are the same key.
//
// A key without such a value may be the name of a parameter of package router: its value is
// a string, which may be kept. router.Param does not allocate.
func (r *Request) UserValue(key any) any {
	if key, ok := key.(route.Key); ok {
		return r.routed(key)
	}
	if value := r.userValues.get(key); value != nil || r.match == nil {
		return value
	}
	switch key := key.(type) {
	case string:
		return r.parameter(key)
	case []byte:
		return r.parameter(string(key))
	}
	return nil
}

// UserValueBytes is UserValue(string(key)).
func (r *Request) UserValueBytes(key []byte) any {
	if value := r.userValues.getBytes(key); value != nil || r.match == nil {
		return value
	}
	return r.parameter(string(key))
}

// routed returns where package router keeps the route of the request.
func (r *Request) routed(key route.Key) any {
	if r.match == nil {
		if !key.Makes {
			return nil
		}
		r.match = new(route.Match)
	}
	return r.match
}

// parameter returns the value of a parameter of the route as a string, nil if there is none.
func (r *Request) parameter(name string) any {
	if value, ok := r.match.Param(name); ok {
		return string(value)
	}
	return nil
}

// dropRoute forgets the route of the request and its parameters.
func (r *Request) dropRoute() {
	if r.match != nil {
		r.match.Reset()
	}
}

// SetUserValue stores value under key until the request is reset or released
// or, in a server, answered. A value that is an io.Closer is then closed. key
// must be comparable, or a []byte.
func (r *Request) SetUserValue(key, value any) { r.userValues.set(key, value) }

// SetUserValueBytes is SetUserValue(string(key), value).
func (r *Request) SetUserValueBytes(key []byte, value any) { r.userValues.set(key, value) }

// RemoveUserValue removes key and its value without closing the value.
func (r *Request) RemoveUserValue(key any) { r.userValues.remove(key) }

// RemoveUserValueBytes is RemoveUserValue(string(key)).
func (r *Request) RemoveUserValueBytes(key []byte) { r.userValues.remove(key) }

// ResetUserValues removes all user values, and parameters of package router. It closes
// those that are io.Closers.
func (r *Request) ResetUserValues() {
	if len(r.userValues) != 0 || r.match != nil { // for most requests without a call
		r.dropValues()
	}
}

func (r *Request) dropValues() {
	r.userValues.reset()
	r.dropRoute()
}

// VisitUserValues calls visitor for each user value whose key is a string, and for each
// parameter of package router. visitor must not retain or change the bytes of key.
func (r *Request) VisitUserValues(visitor func(key []byte, value any)) {
	r.VisitUserValuesAll(func(key, value any) {
		if key, ok := key.(string); ok {
			visitor(ascii.Bytes(key), value)
		}
	})
}

// VisitUserValuesAll calls visitor for each user value, and for each parameter of package
// router.
func (r *Request) VisitUserValuesAll(visitor func(key, value any)) {
	for i := range r.userValues {
		visitor(r.userValues[i].key, r.userValues[i].value)
	}
	if r.match == nil {
		return
	}
	for _, name := range r.match.Names() {
		if r.userValues.get(name) == nil {
			visitor(name, r.parameter(name))
		}
	}
}

// A valueList holds user values, in the order in which their keys were first set. Requests
// have few of them: a linear search is faster than a map. The zero value is empty.
type valueList []userValue

// A userValue is a key and its value. A key that was given as []byte is stored as
// a string: both are the same key.
type userValue struct{ key, value any }

// get returns the value under key, nil if there is none.
func (l valueList) get(key any) any {
	switch key := key.(type) {
	case string:
		return l.getString(key)
	case []byte:
		return l.getBytes(key)
	}
	for i := range l {
		if l[i].key == key {
			return l[i].value
		}
	}
	return nil
}

func (l valueList) getString(key string) any {
	for i := range l {
		if k, ok := l[i].key.(string); ok && k == key {
			return l[i].value
		}
	}
	return nil
}

// getBytes is get for a key of bytes. It does not allocate a string.
func (l valueList) getBytes(key []byte) any {
	for i := range l {
		if k, ok := l[i].key.(string); ok && k == string(key) {
			return l[i].value
		}
	}
	return nil
}

// set stores value under key. A nil value is stored only if the key exists.
func (l *valueList) set(key, value any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *l {
		if (*l)[i].key == key {
			(*l)[i].value = value
			return
		}
	}
	if value != nil {
		*l = append(*l, userValue{key, value})
	}
}

// remove removes key and its value.
func (l *valueList) remove(key any) {
	if b, ok := key.([]byte); ok {
		key = string(b)
	}
	for i := range *l {
		if (*l)[i].key == key {
			last := len(*l) - 1
			copy((*l)[i:], (*l)[i+1:])
			(*l)[last] = userValue{}
			*l = (*l)[:last]
			return
		}
	}
}

// reset removes all values and closes those that are io.Closers.
func (l *valueList) reset() {
	if len(*l) != 0 {
		l.resetWith(func(c io.Closer) { _ = c.Close() }) // no caller could act on the error
	}
}

// resetWith removes all values and calls closeValue with those that are io.Closers.
func (l *valueList) resetWith(closeValue func(io.Closer)) {
	values := *l
	for i := range values {
		if c, ok := values[i].value.(io.Closer); ok {
			closeValue(c)
		}
	}
	clear(values)
	*l = values[:0]
}

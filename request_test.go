package sluice

import (
	"testing"
	"time"
)

func TestRequestReset(t *testing.T) {
	var r Request
	closed := streamOf("")
	r.SetRequestURI("http://host/path?a=b")
	r.URI().SetPath("/other")
	r.PostArgs().Set("k", "v")
	r.SetBodyString("body")
	r.SetTimeout(time.Second)
	r.SetUserValue("key", closed)
	r.UseHostHeader, r.DisableRedirectPathNormalizing, r.KeepBodyBuffer, r.connection = true, true, true, overHTTPS
	r.Reset()
	if got := r.URI().String(); got != "http:///" {
		t.Errorf("URI %q", got)
	}
	if r.PostArgs().Len() != 0 || len(r.Body()) != 0 || r.GetTimeOut() != 0 || r.UserValue("key") != nil ||
		r.UseHostHeader || r.DisableRedirectPathNormalizing || r.connection != notReceived {
		t.Error("something is left")
	}
	if !r.KeepBodyBuffer {
		t.Error("KeepBodyBuffer was reset")
	}
	if closed.closed != 1 {
		t.Errorf("the user value was closed %d times", closed.closed)
	}
}

func TestUserValues(t *testing.T) {
	var r Request
	closer := streamOf("")
	r.SetUserValue("string", 1)
	r.SetUserValueBytes([]byte("bytes"), 2)
	r.SetUserValue([]byte("more"), 3)
	r.SetUserValue(42, 4)
	r.SetUserValue("string", 5)
	r.SetUserValue("absent", nil)
	r.SetUserValue("closer", closer)
	for key, want := range map[any]any{"string": 5, "bytes": 2, "more": 3, 42: 4, "absent": nil, 43: nil} {
		if got := r.UserValue(key); got != want {
			t.Errorf("%v: %v", key, got)
		}
		if s, ok := key.(string); ok && (r.UserValueBytes([]byte(s)) != want || r.UserValue([]byte(s)) != want) {
			t.Errorf("%v as bytes", key)
		}
	}
	var keys, all int
	r.VisitUserValues(func([]byte, any) { keys++ })
	r.VisitUserValuesAll(func(any, any) { all++ })
	if keys != 4 || all != 5 {
		t.Errorf("visited %d and %d", keys, all)
	}
	r.SetUserValue(42, nil)
	if all = 0; r.UserValue(42) != nil {
		t.Error("42 is not nil")
	}
	r.VisitUserValuesAll(func(any, any) { all++ })
	if all != 5 {
		t.Error("a nil value must stay visible")
	}
	r.RemoveUserValue("string")
	r.RemoveUserValueBytes([]byte("bytes"))
	r.RemoveUserValue("never there")
	if r.UserValue("string") != nil || r.UserValue("bytes") != nil || r.UserValue("more") != 3 {
		t.Error("removing removed something else")
	}
	held := r.userValues
	r.ResetUserValues()
	if closer.closed != 1 || r.UserValue("more") != nil {
		t.Error("reset")
	}
	for _, v := range held[:cap(held)] {
		if v != (userValue{}) {
			t.Errorf("%v is retained", v)
		}
	}
}

type closeCounter struct{ closed int }

func (c *closeCounter) Close() error {
	c.closed++
	return nil
}

// TestValueList: keys keep their order, a key of bytes is that of a string, and reset closes
// what can be closed and retains nothing.
func TestValueList(t *testing.T) {
	var l valueList
	c := &closeCounter{}
	l.set("a", nil) // not stored: there is no such key
	l.set("a", 1)
	l.set([]byte("b"), c)
	l.set(3, "three")
	l.set("a", nil)
	if l.get("b") != c || l.get([]byte("b")) != c || l.getBytes([]byte("b")) != c || l.get(3) != "three" || l.get(4) != nil {
		t.Errorf("%v", l)
	}
	if len(l) != 3 || l[0] != (userValue{"a", nil}) || l[1].key != "b" || l[2].key != 3 {
		t.Errorf("%v", l)
	}
	l.remove([]byte("a"))
	l.remove("never there")
	if len(l) != 2 || l[0].key != "b" {
		t.Errorf("%v", l)
	}
	held := l
	l.reset()
	if c.closed != 1 || len(l) != 0 || held[0] != (userValue{}) || held[:3][2] != (userValue{}) {
		t.Errorf("closed %d times, %v is retained", c.closed, held)
	}
}

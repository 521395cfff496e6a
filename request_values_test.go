package sluice

import "testing"

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

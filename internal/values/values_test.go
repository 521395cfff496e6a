package values

import "testing"

type counter struct{ closed int }

func (c *counter) Close() error {
	c.closed++
	return nil
}

// TestList: keys keep their order, a key of bytes is that of a string, and Reset closes
// what can be closed and retains nothing.
func TestList(t *testing.T) {
	var l List
	c := &counter{}
	l.Set("a", nil) // not stored: there is no such key
	l.Set("a", 1)
	l.Set([]byte("b"), c)
	l.Set(3, "three")
	l.Set("a", nil)
	if l.Get("b") != c || l.Get([]byte("b")) != c || l.GetBytes([]byte("b")) != c || l.Get(3) != "three" || l.Get(4) != nil {
		t.Errorf("%v", l)
	}
	if len(l) != 3 || l[0] != (Entry{"a", nil}) || l[1].Key != "b" || l[2].Key != 3 {
		t.Errorf("%v", l)
	}
	l.Remove([]byte("a"))
	l.Remove("never there")
	if len(l) != 2 || l[0].Key != "b" {
		t.Errorf("%v", l)
	}
	held := l
	l.Reset()
	if c.closed != 1 || len(l) != 0 || held[0] != (Entry{}) || held[:3][2] != (Entry{}) {
		t.Errorf("closed %d times, %v is retained", c.closed, held)
	}
}

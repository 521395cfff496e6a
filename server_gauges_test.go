package sluice

import (
	"reflect"
	"testing"
)

// The gauges that each connection changes share no cache line with what each request
// reads.
func TestGaugesAreApart(t *testing.T) {
	const line = 64
	gauges := reflect.TypeFor[serverGauges]()
	offset := func(name string) uintptr {
		field, ok := gauges.FieldByName(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		return field.Offset
	}
	for _, name := range []string{"connID", "arrived", "admitted", "hijacked", "rejected"} {
		if at := offset(name); at < offset("isClosing")+line {
			t.Errorf("%s, at %d, is written near isClosing, at %d", name, at, offset("isClosing"))
		}
	}
	if at := offset("connID"); at < line {
		t.Errorf("connID, at %d, is written near the Server's other fields", at)
	}
}

package sluice

import (
	"errors"
	"reflect"
	"strings"
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

// TestAcceptErrorIsLogged: the log is the only place that has it.
func TestAcceptErrorIsLogged(t *testing.T) {
	logger := &recordingLogger{}
	s := &Server{Logger: logger, Handler: func(*RequestCtx) {}}
	newAcceptor(s, s.config()).AcceptError(errors.New("no descriptors"))
	if got := strings.Join(logger.lines, "|"); got != "cannot accept a connection, trying again: no descriptors" {
		t.Errorf("log %q", got)
	}
}

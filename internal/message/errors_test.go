package message

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrorTypesWrapTheirCause(t *testing.T) {
	for _, err := range []interface {
		error
		Unwrap() error
	}{ErrNothingRead{io.EOF}, ErrSmallBuffer{io.EOF}, ErrBrokenChunk{io.EOF}, ErrBodyStreamWritePanic{io.EOF}} {
		if err.Error() != io.EOF.Error() || !errors.Is(err, io.EOF) {
			t.Errorf("%T: %v", err, err)
		}
	}
	// The zero values are what errors.As starts with.
	for _, err := range []interface {
		error
		Unwrap() error
	}{ErrNothingRead{}, ErrSmallBuffer{}, ErrBrokenChunk{}, ErrBodyStreamWritePanic{}} {
		if !strings.HasPrefix(err.Error(), "sluice: ") || err.Unwrap() != nil {
			t.Errorf("%T: %v", err, err)
		}
	}
	var nothing ErrNothingRead
	if !errors.As(fmt.Errorf("x: %w", ErrNothingRead{io.EOF}), &nothing) || nothing.Unwrap() != io.EOF {
		t.Error("errors.As does not find ErrNothingRead")
	}
}

// TestKnownError: both errors match, and the text has the prefix once.
func TestKnownError(t *testing.T) {
	known, reason := errors.New("sluice: known"), errors.New("sluice: reason")
	err := Known(known, reason)
	if !errors.Is(err, known) || !errors.Is(err, reason) || errors.Is(err, io.EOF) {
		t.Errorf("%v does not match what it has", err)
	}
	if got := err.Error(); got != "sluice: known (reason)" {
		t.Errorf("%q", got)
	}
	same := Known(ErrUnsupportedTransferEncoding, errors.New("unsupported Transfer-Encoding"))
	if text := same.Error(); text != ErrUnsupportedTransferEncoding.Error() {
		t.Errorf("%q says it twice", text)
	}
}

// TestErrorsOfTypes: what the constructors return can be found by its type and by its cause.
func TestErrorsOfTypes(t *testing.T) {
	cause := errors.New("sluice: cause")
	if err := SmallBuffer(cause); !errors.As(err, new(*ErrSmallBuffer)) || !errors.Is(err, ErrSmallReadBuffer) || !errors.Is(err, cause) {
		t.Errorf("SmallBuffer: %v", err)
	}
	if err := BrokenChunk(cause); !errors.As(err, new(ErrBrokenChunk)) || !errors.Is(err, cause) || err.Error() != cause.Error() {
		t.Errorf("BrokenChunk: %v", err)
	}
	for _, test := range []struct {
		value any
		text  string
	}{{cause, "sluice: panic while writing a body stream: sluice: cause"}, {"text", "sluice: panic while writing a body stream: text"}, {5, "sluice: panic while writing a body stream: 5"}} {
		err := StreamPanic(test.value)
		_, isError := test.value.(error)
		if !errors.As(err, new(*ErrBodyStreamWritePanic)) || errors.Is(err, cause) != isError || err.Error() != test.text {
			t.Errorf("%v: %v", test.value, err)
		}
	}
}

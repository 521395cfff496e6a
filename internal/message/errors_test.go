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

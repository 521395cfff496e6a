package sluice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func TestErrTimeoutIsANetworkTimeout(t *testing.T) {
	var err error = fmt.Errorf("wrapped: %w", ErrTimeout)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	if net.Error(nil) != nil || ErrTimeout.Error() == "" {
		t.Error("no text")
	}
}

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

func TestErrorsQuoteWhatTheyShow(t *testing.T) {
	for _, err := range []error{EscapeError("%\r\n"), InvalidHostError("a\r\nb")} {
		if text := err.Error(); !strings.HasPrefix(text, "sluice: ") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q", text)
		}
	}
}

package sluice

import (
	"errors"
	"fmt"
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

func TestErrorsQuoteWhatTheyShow(t *testing.T) {
	for _, err := range []error{EscapeError("%\r\n"), InvalidHostError("a\r\nb")} {
		if text := err.Error(); !strings.HasPrefix(text, "sluice: ") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q", text)
		}
	}
}

package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestStatusMessages(t *testing.T) {
	// What net/http calls differently: 413, 414 and 416 had these names in RFC
	// 2616, and fasthttp's users know them.
	different := map[int]string{413: "Request Entity Too Large", 414: "Request URI Too Long", 416: "Requested Range Not Satisfiable", 418: "I'm a teapot", 425: "Unknown Status Code"}
	for code := range 1100 {
		want := http.StatusText(code)
		if name, isDifferent := different[code]; isDifferent {
			want = name
		}
		if want == "" {
			want = "Unknown Status Code"
		}
		if got := sluice.StatusMessage(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	if sluice.StatusMessage(-1) != "Unknown Status Code" {
		t.Error("-1")
	}
}

// The constants have the values of those of the same name in net/http.
func TestStatusCodes(t *testing.T) {
	got := []int{
		sluice.StatusContinue, sluice.StatusSwitchingProtocols, sluice.StatusProcessing, sluice.StatusEarlyHints, sluice.StatusOK, sluice.StatusCreated, sluice.StatusAccepted,
		sluice.StatusNonAuthoritativeInfo, sluice.StatusNoContent, sluice.StatusResetContent, sluice.StatusPartialContent, sluice.StatusMultiStatus,
		sluice.StatusAlreadyReported, sluice.StatusIMUsed, sluice.StatusMultipleChoices, sluice.StatusMovedPermanently, sluice.StatusFound, sluice.StatusSeeOther,
		sluice.StatusNotModified, sluice.StatusUseProxy, sluice.StatusTemporaryRedirect, sluice.StatusPermanentRedirect, sluice.StatusBadRequest, sluice.StatusUnauthorized,
		sluice.StatusPaymentRequired, sluice.StatusForbidden, sluice.StatusNotFound, sluice.StatusMethodNotAllowed, sluice.StatusNotAcceptable, sluice.StatusProxyAuthRequired,
		sluice.StatusRequestTimeout, sluice.StatusConflict, sluice.StatusGone, sluice.StatusLengthRequired, sluice.StatusPreconditionFailed, sluice.StatusRequestEntityTooLarge,
		sluice.StatusRequestURITooLong, sluice.StatusUnsupportedMediaType, sluice.StatusRequestedRangeNotSatisfiable, sluice.StatusExpectationFailed,
		sluice.StatusTeapot, sluice.StatusMisdirectedRequest, sluice.StatusUnprocessableEntity, sluice.StatusLocked, sluice.StatusFailedDependency,
		sluice.StatusUpgradeRequired, sluice.StatusPreconditionRequired, sluice.StatusTooManyRequests, sluice.StatusRequestHeaderFieldsTooLarge,
		sluice.StatusUnavailableForLegalReasons, sluice.StatusInternalServerError, sluice.StatusNotImplemented, sluice.StatusBadGateway, sluice.StatusServiceUnavailable,
		sluice.StatusGatewayTimeout, sluice.StatusHTTPVersionNotSupported, sluice.StatusVariantAlsoNegotiates, sluice.StatusInsufficientStorage,
		sluice.StatusLoopDetected, sluice.StatusNotExtended, sluice.StatusNetworkAuthenticationRequired,
	}
	want := []int{
		http.StatusContinue, http.StatusSwitchingProtocols, http.StatusProcessing, http.StatusEarlyHints, http.StatusOK,
		http.StatusCreated, http.StatusAccepted, http.StatusNonAuthoritativeInfo, http.StatusNoContent, http.StatusResetContent,
		http.StatusPartialContent, http.StatusMultiStatus, http.StatusAlreadyReported, http.StatusIMUsed, http.StatusMultipleChoices,
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusNotModified, http.StatusUseProxy,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusBadRequest, http.StatusUnauthorized,
		http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusLengthRequired,
		http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable, http.StatusExpectationFailed, http.StatusTeapot,
		http.StatusMisdirectedRequest, http.StatusUnprocessableEntity, http.StatusLocked, http.StatusFailedDependency,
		http.StatusUpgradeRequired, http.StatusPreconditionRequired, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons, http.StatusInternalServerError,
		http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusHTTPVersionNotSupported, http.StatusVariantAlsoNegotiates, http.StatusInsufficientStorage, http.StatusLoopDetected,
		http.StatusNotExtended, http.StatusNetworkAuthenticationRequired,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestStatusCodeIsRedirect(t *testing.T) {
	var redirects []string
	for code := range 1000 {
		if sluice.StatusCodeIsRedirect(code) {
			redirects = append(redirects, fmt.Sprint(code))
		}
	}
	if got := strings.Join(redirects, " "); got != "301 302 303 307 308" {
		t.Error(got)
	}
}

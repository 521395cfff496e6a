package main

import (
	"testing"

	"github.com/sluicehttp/sluice/sluicetest"
)

func TestHello(t *testing.T) {
	sluicetest.CheckLeaks(t)
	s := sluicetest.NewServer(t, hello)
	for query, want := range map[string]string{
		"":              "Hello, world!\n",
		"?name=Ada":     "Hello, Ada!\n",
		"?name=J%C3%B8": "Hello, Jø!\n",
	} {
		status, got, err := s.Client().Get(nil, s.URL+"/"+query)
		if status != 200 || string(got) != want || err != nil {
			t.Errorf("%q: got %d %q, %v, want %q", query, status, got, err, want)
		}
	}
}

// The same without a server.
func TestHelloRecorded(t *testing.T) {
	resp := sluicetest.Record(t, hello, sluicetest.NewRequest("GET", "/?name=Ada", ""))
	if string(resp.Body()) != "Hello, Ada!\n" {
		t.Error(resp)
	}
}

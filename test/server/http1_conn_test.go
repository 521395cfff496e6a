package server_test

import (
	"github.com/sluicehttp/sluice"
)

// quietServer has no Date in its answers and no words for its log.
func quietServer(handler sluice.RequestHandler) *sluice.Server {
	return &sluice.Server{Handler: handler, NoDefaultDate: true, Logger: silence{}}
}

type silence struct{}

func (silence) Printf(string, ...any) {}

package client_test

import (
	"net"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
)

// pipelineMakers returns the clients that pipeline; net/http has none. Each has
// one connection.
func pipelineMakers() []maker {
	return []maker{{sluiceName, pipelineSluice}, {fasthttpName, pipelineFastHTTP}}
}

func pipelineSluice(env environment) client {
	c := &sluice.PipelineClient{
		Addr:                host,
		Dial:                func(string) (net.Conn, error) { return env.dial() },
		MaxPendingRequests:  env.conns,
		MaxIdleConnDuration: idleTime,
	}
	return client{sluiceDoer(c.Do), c.CloseIdleConnections}
}

func pipelineFastHTTP(env environment) client {
	c := &fasthttp.PipelineClient{
		Addr:                host,
		Dial:                func(string) (net.Conn, error) { return env.dial() },
		MaxPendingRequests:  env.conns,
		MaxIdleConnDuration: idleTime,
	}
	return client{fasthttpDoer(c.Do), func() {}} // there is no way to close its connection
}

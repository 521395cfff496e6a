package main

import "slices"

// Reasons for differences; numbers are those of rows in docs/compatibility.md.
const (
	ofNames    = "compares the name of a type's package, which is sluice"
	ofConnect  = "S10: CONNECT with a path is refused"
	ofVersions = "S7: HTTP/0.0 is refused"
	ofHeads    = "L32: heads of responses may have 64 KiB"
	ofTunnels  = "L8: what follows a proxy's 200 belongs to the tunnel; the test's proxy sends a page"
	ofInterim  = "an interim status (1xx) is no final answer: 500"
	ofHosts    = "S102: converted requests have the Host in r.Host only"
	ofAgents   = "L82: the User-Agent is sluice"
	ofTags     = "a strong ETag becomes a weak one when the body is encoded (RFC 9110 section 8.8.1)"
)

// withHost gives requests a Host where a test makes them without one: neither
// Sluice nor a present fasthttp takes them (RFC 9112 section 3.2), and what else
// the test looks at would not be seen. Package httputil, which Fiber's App.Test
// uses, writes none for an absolute target.
var withHost = []edit{
	{`(http\.NewRequest(?:WithContext)?\([^"\n]*(?:"[A-Z]+", )?)"/`, `${1}"http://example.com/`},
	{`(http\.NewRequest(?:WithContext)?\([^"\n]*, )((?:tt|test|tc|c)\.(?:url|URL|route)|target|targetURL)\b`, `${1}"http://example.com"+${2}`},
	{`(httptest\.NewRequest\([^"\n]*)"http://example\.com/`, `${1}"/`},
	{`(httptest\.NewRequest\([^"\n]*)"http://example\.com"`, `${1}"/"`},
	{` HTTP/1\.1\\r\\n\\r\\n`, ` HTTP/1.1\r\nHost: example.com\r\n\r\n`},
}

// suites are the modules that are tested.
func suites() []suite {
	return []suite{
		{Module: "github.com/fasthttp/router", Version: "v1.5.4", Edits: withHost},
		{Module: "github.com/fasthttp/websocket", Version: "v1.5.12"},
		{Module: "github.com/fasthttp/session/v2", Version: "v2.5.7"},
		{Module: "github.com/buaazp/fasthttprouter", Version: "v0.1.1", Fasthttp: "v1.74.0"},
		{Module: "github.com/qiangxue/fasthttp-routing", Version: "v0.0.0-20160225050629-6ccdc2a18d87", Fasthttp: "v1.74.0", Without: []string{"example_test.go"}},
		{Module: "github.com/zerodha/fastglue", Version: "v1.8.0"},
		// With an empty Host, that test panics; so it does with fasthttp v1.74.
		{Module: "github.com/gavv/httpexpect/v2", Version: "v2.16.0", Skip: "^TestE2EWebsocket_HandlerFast$"},
		{Module: "github.com/codesenberg/bombardier", Version: "v1.2.6"},
		{Module: "github.com/mymmrac/telego", Version: "v1.6.0"},
		{Module: "github.com/slok/go-http-metrics", Version: "v0.13.0", Packages: []string{"./middleware/fasthttp/..."}},
		{Module: "github.com/ulule/limiter/v3", Version: "v3.11.2", Packages: []string{"./drivers/middleware/fasthttp/..."}},
		fiber2(), fiber3(),
		{Module: "github.com/gofiber/adaptor/v2", Version: "v2.2.1", Edits: withHost},
		{Module: "github.com/gofiber/jwt/v3", Version: "v3.3.10"},
		{Module: "github.com/gofiber/swagger", Version: "v1.1.1", Edits: withHost},
		{Module: "github.com/gofiber/contrib/jwt", Version: "v1.1.2"},
		{Module: "github.com/gofiber/contrib/otelfiber/v2", Version: "v2.1.1"},
		{Module: "github.com/gofiber/contrib/swagger", Version: "v1.3.0"},
		{Module: "github.com/gofiber/contrib/websocket", Version: "v1.3.4"},
		{
			Module: "github.com/coder/websocket", Version: "v1.8.15", Fasthttp: newest, Server: "coder",
			Edits: []edit{
				{`"net/http/httptest"`, `"github.com/coder/websocket/internal/test/httptest"`},
				{`assert\.Equal\(t, "remote addr.*`, ``}, // that of net.Pipe
				// A connection that was hijacked ends soon after its Close. That of a test's proxy is
				// left to the garbage collector.
				{`code := m.Run\(\)`, "code := m.Run()\nfor i := 0; i < 1000 && runtime.NumGoroutine() > 1; i++ { runtime.GC() }"},
			},
		},
		{Module: "gopkg.in/DataDog/dd-trace-go.v1", Version: "v1.74.8", Packages: []string{"./contrib/valyala/fasthttp.v1/...", "./contrib/gofiber/fiber.v2/..."}, Edits: withHost},
		{Module: "github.com/awslabs/aws-lambda-go-api-proxy", Version: "v0.16.2", Packages: []string{"./fiber/..."}},
		{Module: "github.com/danielgtaylor/huma/v2", Version: "v2.37.2", Packages: []string{"./adapters/..."}},
		{Module: "github.com/ansrivas/fiberprometheus/v2", Version: "v2.16.0"},
		{Module: "github.com/gofiber/keyauth/v2", Version: "v2.2.1", Edits: slices.Concat(withHost, []edit{{`"GET", test\.route`, `"GET", "http://example.com"+test.route`}})},
		{Module: "github.com/gofiber/contrib/fiberzap/v2", Version: "v2.1.3", Edits: withHost},
		{Module: "github.com/gofiber/contrib/fiberzerolog", Version: "v1.0.2", Edits: withHost},
		{Module: "github.com/gofiber/contrib/socketio", Version: "v1.1.3"},
		{Module: "github.com/swaggo/fiber-swagger", Version: "v1.3.0", Edits: withHost},
		{Module: "github.com/oapi-codegen/fiber-middleware", Version: "v1.0.2", Edits: withHost},
		{Module: "go.elastic.co/apm/module/apmfasthttp/v2", Version: "v2.6.0"},
		{
			Module: "go.elastic.co/apm/module/apmfiber/v2", Version: "v2.6.0", Edits: withHost,
			Differences: map[string]string{"go.elastic.co/apm/module/apmfiber/v2 TestMiddleware": ofHosts},
		},
		{
			Module: "github.com/getsentry/sentry-go", Version: "v0.27.0", Packages: []string{"./fasthttp/..."},
			Differences: map[string]string{"github.com/getsentry/sentry-go/fasthttp TestIntegration": ofAgents},
		},
		{
			Module: "github.com/getsentry/sentry-go/fiber", Version: "v0.35.1", Edits: withHost,
			Differences: map[string]string{"github.com/getsentry/sentry-go/fiber TestMalformedURLNoPanic": ofVersions},
		},
	}
}

// fiber2 leaves out a test that waits for a 408 before the first byte (S25), for
// ever. So does fiber3.
func fiber2() suite {
	return suite{
		Module: "github.com/gofiber/fiber/v2", Version: "v2.52.15", Skip: "^Test_App_ReadTimeout$", Edits: withHost,
		Differences: map[string]string{
			"github.com/gofiber/fiber/v2 Test_App_Group":                                   ofConnect,
			"github.com/gofiber/fiber/v2 Test_App_Methods":                                 ofConnect,
			"github.com/gofiber/fiber/v2 Test_App_Route":                                   ofConnect,
			"github.com/gofiber/fiber/v2 Test_App_Handler":                                 ofNames,
			"github.com/gofiber/fiber/v2 Test_Ctx_Context":                                 ofNames,
			"github.com/gofiber/fiber/v2/middleware/proxy Test_Proxy_Buffer_Size_Response": ofHeads,
		},
	}
}

func fiber3() suite {
	return suite{
		Module: "github.com/gofiber/fiber/v3", Version: "v3.1.0", Skip: "^Test_App_ReadTimeout$", Edits: withHost,
		Differences: map[string]string{
			"github.com/gofiber/fiber/v3 Test_App_Group":                                             ofConnect,
			"github.com/gofiber/fiber/v3 Test_App_Methods":                                           ofConnect,
			"github.com/gofiber/fiber/v3 Test_App_RegisterNetHTTPHandler":                            ofConnect,
			"github.com/gofiber/fiber/v3 Test_App_RouteChain":                                        ofConnect,
			"github.com/gofiber/fiber/v3 Test_App_Handler":                                           ofNames,
			"github.com/gofiber/fiber/v3 Test_Ctx_RequestCtx":                                        ofNames,
			"github.com/gofiber/fiber/v3/client Test_Client_SetProxyURL":                             ofTunnels,
			"github.com/gofiber/fiber/v3/middleware/cache Test_Cache_UncacheableStatusCodes":         ofInterim,
			"github.com/gofiber/fiber/v3/middleware/compress Test_Compress_Strong_ETag_Recalculated": ofTags,
			"github.com/gofiber/fiber/v3/middleware/proxy Test_Proxy_Buffer_Size_Response":           ofHeads,
		},
	}
}

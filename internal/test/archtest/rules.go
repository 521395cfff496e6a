package archtest

import (
	"maps"
	"strings"
)

// A packageRule says what the non-test files of one package may import beyond
// the standard library.
type packageRule struct {
	// own lists packages of this repository, as folders relative to its root;
	// "." is the root package. A trailing "/..." admits a whole subtree.
	own []string
	// external lists other modules, by path prefix.
	external []string
	// pure forbids the standard packages that do or wait for I/O.
	pure bool
	// usesAtomics admits sync/atomic in a pure package: for what many goroutines
	// read without waiting.
	usesAtomics bool
	// usesUnsafe admits import "unsafe".
	usesUnsafe bool
	// anyModule admits every other module: nested modules with a go.mod of
	// their own.
	anyModule bool
}

// rules is everything that check enforces.
type rules struct {
	module          string                 // import path of the root package
	packages        map[string]packageRule // folder or "folder/..." to its rule; the longest match wins
	impureStandard  []string               // standard packages, with all below them, that pure packages don't import
	allowedModules  []string               // what the root go.mod may require
	compressors     []string               // third-party modules that only compressorOwner imports
	compressorOwner string
	isolated        []string          // folders that nothing outside of them imports
	mutableVars     map[string]string // "folder.name", in the root package "name", to the reason why it may change
	poolFiles       []string          // folders in which every file may hold pools; elsewhere only pools.go and pools_x.go
	maxFileLines    int
	maxFuncLines    int
	minCoverage     int               // percent of the statements of a package that its own tests reach
	uncovered       map[string]string // folder or "folder/..." with less than minCoverage, to the reason
	pages           []string          // documents that name places: patterns
	vagueNames      []string          // words that say nothing as a file's or folder's name
}

const (
	xCrypto = "golang.org/x/crypto"
	xNet    = "golang.org/x/net"
	xSys    = "golang.org/x/sys"
	xText   = "golang.org/x/text"
	zstd    = "github.com/klauspost/compress"
	brotli  = "github.com/andybalholm/brotli"
)

// engineOwn is what the engines build on. Never field, h1 or root: an engine
// moves bytes and does not know what they mean.
var engineOwn = []string{"internal/engine", "internal/engine/drive", "internal/engine/sock", "internal/buf", "internal/clock", "internal/engine/listen", "internal/invariants", "internal/test/selfsigned"}

// repositoryRules is the table of docs/style.md and ARCHITECTURE.md. A package
// that is not in it fails the test: add it here, with as little as it needs.
func repositoryRules() rules {
	return rules{
		module:          "github.com/sluicehttp/sluice",
		packages:        packageRules(),
		impureStandard:  []string{"net", "os", "io", "bufio", "sync", "time", "fmt", "log"},
		allowedModules:  []string{xCrypto, xNet, xSys, xText, zstd, brotli},
		compressors:     []string{zstd, brotli},
		compressorOwner: "internal/compress",
		isolated:        []string{"tools/bench", "tools/interop"},
		mutableVars:     mutableVars(),
		poolFiles:       []string{"internal/buf"},
		maxFileLines:    800,
		maxFuncLines:    70,
		minCoverage:     85,
		uncovered:       uncovered(),
		pages:           []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "docs/*.md", "docs/*/*.md"},
		vagueNames:      []string{"util", "utils", "common", "helper", "helpers", "misc"},
	}
}

func packageRules() map[string]packageRule {
	all := map[string]packageRule{
		// The facade. Process supervision, tests' peers and satellites are not
		// below it.
		".": {
			own: []string{
				"internal/wire/ascii", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/h2", "internal/server/http1", "internal/server/http2", "internal/client/http1", "internal/client/http2", "internal/client/streams", "internal/message",
				"internal/engine", "internal/engine/choose", "internal/engine/compact", "internal/engine/uring", "internal/server", "internal/server/route", "internal/server/upgrade",
				"internal/clock", "internal/buf", "internal/compress", "internal/engine/listen", "internal/invariants", "internal/test/selfsigned",
				"internal/client/balance", "internal/wire/conditional", "internal/wire/proxy", "internal/files", "internal/client/dial", "internal/body", "internal/client/pipeline", "internal/client/pool", "internal/wire/uri",
			},
			external: []string{xNet, xText},
		},

		// Pure: bytes in, values out.
		"internal/wire/...":   {pure: true, usesAtomics: true, own: []string{"internal/wire/..."}},
		"internal/wire/ascii": {pure: true, usesUnsafe: true},
		"internal/wire/tls13": {pure: true, usesAtomics: true, external: []string{xCrypto}},

		// The server's ends of HTTP: Protocols on the seam.
		"internal/server":                 {own: []string{"internal/engine", "internal/message", "internal/wire/h1"}},
		"internal/server/http1":           {own: []string{"internal/buf", "internal/clock", "internal/engine", "internal/wire/field", "internal/wire/h1", "internal/message", "internal/server"}},
		"internal/server/http2/http2test": {external: []string{xNet}}, // of tests
		"internal/server/http1/http1test": {own: []string{"internal/engine"}},
		"internal/server/streams":         {own: []string{"internal/engine", "internal/message", "internal/server", "internal/wire/ascii", "internal/wire/field", "internal/wire/h1"}},
		"internal/server/http2":           {own: []string{"internal/message", "internal/server", "internal/server/streams", "internal/wire/ascii", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/h2", "internal/buf", "internal/clock", "internal/engine", "internal/engine/drive"}},
		// The client's ends, over a net.Conn.
		"internal/client/http1": {own: []string{"internal/body", "internal/clock", "internal/client/dial", "internal/engine", "internal/wire/field", "internal/wire/h1", "internal/client/pool"}},
		"internal/client/http2": {own: []string{"internal/client/streams", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/h2", "internal/body", "internal/buf", "internal/clock", "internal/client/pool"}},

		// The seam and what moves bytes through it.
		"internal/server/upgrade":    {own: []string{"internal/wire/ascii", "internal/engine", "internal/message"}},
		"internal/engine":            {own: []string{"internal/clock", "internal/wire/proxy"}},
		"internal/engine/sock":       {usesUnsafe: true},
		"internal/engine/uring":      {usesUnsafe: true},
		"internal/engine/drive":      {own: []string{"internal/engine"}},
		"internal/engine/netconn":    {own: engineOwn},
		"internal/engine/choose":     {own: []string{"internal/engine", "internal/engine/epoll", "internal/engine/netconn", "internal/engine/listen"}},
		"internal/engine/core":       {own: append([]string{"internal/engine/compact", "internal/engine/uring", "internal/wire/proxy", "internal/wire/tls13"}, engineOwn...)},
		"internal/engine/compact":    {own: []string{"internal/buf", "internal/wire/tls13"}},
		"internal/engine/epoll":      {own: []string{"internal/engine", "internal/engine/core", "internal/engine/sock"}, usesUnsafe: true},
		"internal/engine/enginetest": {own: []string{"internal/engine", "internal/clock", "internal/invariants", "internal/test/nettest", "internal/test/selfsigned"}},

		// Tests of the public API; tests may import what they like, and nothing imports them.
		"test/...": {},

		// Modules of their own: the root's public packages, and what they like.
		"tools/bench":     {anyModule: true, own: []string{".", "fasthttputil", "prefork", "reuseport", "router", "tools/bench/...", "tools/lab/..."}},
		"tools/interop":   {anyModule: true, own: []string{".", "fasthttpadaptor", "fasthttputil", "prefork", "reuseport", "sse", "websocket", "tools/interop/..."}},
		"contrib/otel":    {anyModule: true, own: []string{".", "internal/server/route", "internal/server/upgrade", "sse", "websocket"}},
		"contrib/metrics": {anyModule: true, own: []string{".", "fasthttpadaptor", "prefork", "shared", "sse", "websocket", "contrib/metrics/..."}},
		"cmd/sluice":      {anyModule: true, own: []string{".", "accesslog", "middleware", "contrib/metrics", "fasthttpadaptor", "fasthttpproxy", "http3", "internal/process/cgroup", "internal/process/health", "internal/process/systemd", "pprofhandler", "prefork", "prefork/dashboard", "proxy", "reuseport", "shared", "sse", "tcp", "websocket", "cmd/sluice/...", "tools/lab/..."}},
		"tools/lab":       {anyModule: true, own: []string{".", "prefork", "tcp", "tools/lab/..."}},
		"examples":        {own: []string{"."}},
		"examples/acme":   {own: []string{".", "fasthttpadaptor"}, external: []string{xCrypto}},
		"examples/grpc":   {anyModule: true, own: []string{".", "fasthttpadaptor", "tcplisten"}},
		"examples/...":    {own: []string{".", "accesslog", "fasthttpadaptor", "fasthttpproxy", "fasthttputil", "middleware", "prefork", "prefork/dashboard", "proxy", "reuseport", "router", "shared", "sse", "tcp", "tcplisten", "websocket", "websocket/room"}},
	}
	for _, alone := range []string{"internal/clock", "internal/process/cgroup", "internal/invariants", "internal/server/requestid", "internal/server/route", "internal/test/nettest", "internal/test/archtest", "internal/test/redistest", "internal/test/selfsigned", "stackless", "fasthttputil"} {
		all[alone] = packageRule{}
	}
	maps.Copy(all, partRules())
	maps.Copy(all, satelliteRules())
	all["contrib/fasthttp"] = shim()
	for _, nested := range []string{"tools/bench", "tools/interop", "cmd/sluice", "contrib/backplane-nats", "contrib/backplane-redis", "contrib/fasthttp", "contrib/metrics", "contrib/otel", "contrib/redis", "http3", "tools/lab"} {
		all[nested+"/..."] = all[nested]
	}
	maps.Copy(all, labRules())
	return all
}

// satelliteRules returns the rules of the public packages beside root.
func satelliteRules() map[string]packageRule {
	return map[string]packageRule{
		// Satellites with a reason to see more than root's exported API.
		"prefork/dashboard": {own: []string{".", "internal/process/prefers", "prefork", "shared", "sse"}},
		"prefork":           {own: []string{".", "backplane", "internal/process/cgroup", "internal/process/health", "internal/process/hold", "internal/process/mesh", "internal/process/prefers", "internal/process/supervise", "internal/process/systemd", "internal/engine/listen", "reuseport", "shared"}, external: []string{xSys}},
		"reuseport":         {own: []string{"internal/engine/listen"}}, // below root, not above it
		"tcplisten":         {own: []string{"internal/engine/listen"}},
		"shared":            {external: []string{xSys}, usesUnsafe: true},

		// Another protocol on the seam. It uses root's names of engines.
		"tcp": {own: []string{".", "internal/wire/ascii", "internal/engine", "internal/engine/choose", "internal/server/upgrade", "internal/clock", "internal/buf", "internal/invariants"}},

		// A protocol that follows HTTP/1.1 on a connection.
		"websocket":      {own: []string{".", "internal/compress", "internal/client/dial", "internal/engine", "internal/engine/choose", "internal/server/upgrade", "internal/wire/uri", "internal/wire/ws", "internal/clock", "internal/buf", "internal/invariants"}},
		"websocket/room": {own: []string{"backplane", "internal/process/recall", "internal/server/upgrade", "websocket"}},

		// Between processes. The modules over brokers share what is not the broker's.
		"backplane":                        {},
		"backplane/backplanetest":          {own: []string{"backplane"}},
		"internal/process/relay":           {own: []string{"backplane"}},
		"internal/process/relay/relaytest": {own: []string{".", "backplane", "sse", "websocket", "websocket/room"}},
		"contrib/backplane-nats":           {anyModule: true, own: []string{"backplane", "internal/process/relay"}},
		"contrib/redis":                    {anyModule: true, own: []string{"shared"}},
		"contrib/backplane-redis":          {anyModule: true, own: []string{"backplane", "internal/process/relay"}},

		// HTTP/3, a module of its own, attached to a Server.
		"http3": {anyModule: true, own: []string{".", "prefork", "http3/...", "internal/body", "internal/buf", "internal/client/dial", "internal/client/pool", "internal/client/streams", "internal/clock", "internal/engine", "internal/engine/listen", "internal/invariants", "internal/message", "internal/server", "internal/server/streams", "internal/wire/ascii", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/h3", "internal/test/nettest", "internal/test/selfsigned"}},

		// Bodies that go on after their handler.
		"sse": {own: []string{".", "backplane", "internal/clock", "internal/engine", "internal/wire/h1", "internal/invariants", "internal/process/recall", "internal/server/upgrade"}},

		// The server and the client together.
		"proxy": {own: []string{".", "internal/body", "internal/buf", "internal/client/balance", "internal/clock", "internal/engine", "internal/engine/choose", "internal/invariants", "internal/message", "internal/server/upgrade", "internal/wire/ascii", "internal/wire/ws", "internal/wire/h1", "internal/wire/uri"}},

		"router":          {own: []string{".", "internal/server/route"}},
		"accesslog":       {own: []string{".", "internal/server/requestid", "internal/server/route", "internal/server/upgrade"}},
		"middleware":      {own: []string{".", "accesslog", "internal/compress", "internal/process/health", "internal/server/requestid", "internal/server/upgrade", "internal/wire/ascii", "internal/wire/conditional", "internal/wire/h1", "shared"}},
		"expvarhandler":   {own: []string{"."}},
		"pprofhandler":    {own: []string{".", "fasthttpadaptor"}},
		"sluicetest":      {own: []string{".", "fasthttputil"}},
		"fasthttpproxy":   {own: []string{".", "internal/client/dial", "internal/message", "internal/wire/ascii"}, external: []string{xNet}},
		"fasthttpadaptor": {own: []string{".", "internal/body", "internal/server/route", "internal/server/upgrade"}, external: []string{xNet}},
	}
}

// partRules returns the rules of what root is made of, without the wire formats
// and the engines.
func partRules() map[string]packageRule {
	clock := packageRule{own: []string{"internal/clock"}}
	return map[string]packageRule{
		"internal/client/balance":              clock,
		"internal/client/streams":              {own: []string{"internal/client/dial", "internal/clock", "internal/message", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1"}},
		"internal/buf":                         {own: []string{"internal/invariants"}},
		"internal/compress":                    {own: []string{"internal/wire/ascii", "internal/buf", "internal/wire/field", "internal/invariants", "internal/message"}, external: []string{zstd, brotli}},
		"internal/files":                       {own: []string{"internal/wire/ascii", "internal/compress", "internal/wire/conditional", "internal/buf", "internal/clock", "internal/wire/field", "internal/invariants", "internal/message"}},
		"internal/client/dial":                 clock,
		"internal/message":                     {own: []string{"internal/wire/ascii", "internal/clock", "internal/wire/conditional", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/uri"}},
		"internal/body":                        {own: []string{"internal/wire/ascii", "internal/buf", "internal/compress", "internal/wire/h1", "internal/message"}},
		"internal/client/pipeline":             {own: []string{"internal/clock", "internal/client/dial", "internal/client/pool"}},
		"internal/client/pool":                 {own: []string{"internal/clock", "internal/engine", "internal/engine/sock", "internal/invariants"}},
		"internal/engine/listen":               {external: []string{xSys}},
		"internal/process/health":              {own: []string{"."}},
		"internal/process/prefers":             {own: []string{"."}},
		"internal/process/hold":                {own: []string{"internal/process/supervise"}, external: []string{xSys}},
		"internal/process/supervise":           {external: []string{xSys}},
		"internal/process/systemd":             {external: []string{xSys}},
		"internal/process/systemd/systemdtest": {},
		"internal/process/mesh":                {own: []string{"backplane"}},
		"internal/process/recall":              {own: []string{"backplane"}},
	}
}

// shim is the rule of the module that is named as fasthttp: it passes on what
// these packages export.
func shim() packageRule {
	return packageRule{own: []string{
		".", "expvarhandler", "fasthttpadaptor", "fasthttpproxy", "fasthttputil",
		"pprofhandler", "prefork", "reuseport", "stackless", "tcplisten",
	}}
}

// labRules returns the rules of the lab's packages that use the wire formats of the
// library, so that each has one parser. tools/lab/load, which "sluice bench" and the comparisons
// use, drives its sockets itself; see docs/adr/0010-load-generator.md.
func labRules() map[string]packageRule {
	return map[string]packageRule{
		"tools/lab/load": {anyModule: true, usesUnsafe: true, own: []string{
			".", "http3", "internal/wire/ascii", "internal/engine/sock", "internal/wire/field", "internal/wire/fieldlist", "internal/wire/h1", "internal/wire/h2", "internal/wire/ws", "tools/lab/...",
		}},
		// The floor of broadcasts is a loop of raw system calls.
		"tools/bench/internal/websockets": {anyModule: true, usesUnsafe: true, own: []string{".", "websocket", "websocket/room", "tools/bench/...", "tools/lab/..."}},
		"tools/bench/internal/h3":         {anyModule: true, own: []string{".", "http3", "tools/bench/...", "tools/lab/..."}},
		"tools/bench/internal/proxies":    {anyModule: true, own: []string{".", "proxy", "tools/bench/...", "tools/lab/..."}},
		"tools/lab/internal/member":       {anyModule: true, own: []string{".", "internal/wire/h2", "internal/wire/tls13", "prefork", "sse", "tcp", "websocket", "websocket/room", "tools/lab/..."}},
	}
}

// uncovered lists what the rule of coverage leaves out. Each entry gives its reason.
func uncovered() map[string]string {
	return map[string]string{
		"cmd/...":      "modules of their own, which are tools or pass on",
		"contrib/...":  "modules of their own, which are tools or pass on",
		"examples/...": "programs to read, which their tests run",
		"http3":        "a module of its own, whose statements no step counts",
		"http3/...":    "a module of its own, whose statements no step counts",
		"tools/...":    "modules of their own, which are tools or pass on",

		// What tests share is covered by the tests that use it.
		"backplane/backplanetest":              "the suite of backplanes",
		"internal/engine/enginetest":           "the suite of engines",
		"internal/process/relay/relaytest":     "the suite of relays",
		"internal/process/systemd/systemdtest": "systemd, for tests",
		"internal/server/http1/http1test":      "scripts of the wire",
		"internal/server/http2/http2test":      "a client",
		"internal/test/nettest":                "processes and connections",
		"internal/test/redistest":              "Redis, for tests",
		"internal/test/selfsigned":             "certificates",
	}
}

// mutableVars is the allow-list of package-level variables that are neither
// sentinel errors, nor pools, nor tables. Each entry gives its reason; an entry
// whose variable is gone fails the test.
func mutableVars() map[string]string {
	return map[string]string{
		"CookieExpireDelete":                           "a time cannot be a constant; exported as fasthttp's variable of that name",
		"CookieExpireUnlimited":                        "a time cannot be a constant; exported as fasthttp's variable of that name",
		"NetHttpFormValueFunc":                         "a function cannot be a constant; exported as fasthttp's variable of that name",
		"bodyPoolLimits":                               "SetBodySizePoolLimit is a setting of the process in fasthttp's API",
		"defaultClient":                                "the client of the package-level functions, which fasthttp's API has",
		"internal/message.gmt":                         "a location cannot be a constant, and would be allocated for each date",
		"cmd/sluice.revision":                          "the linker sets it, which a constant does not allow",
		"internal/client/streams.RoundTrip":            "root sets it when it is loaded: other modules reach the inside of a HostClient without exported methods",
		"websocket.dialed":                             "the engine of connections of Dial; one for all of a process",
		"sharedDialer":                                 "the dialer of clients that set none; its cache of addresses is worth sharing",
		"DefaultTransport":                             "exported as fasthttp's variable of that name",
		"expvarhandler.published":                      "variables of package expvar belong to the process, and are published once",
		"sharedFileServers":                            "ServeFile has no handler that could keep its files",
		"internal/buf.returned":                        "the heap is one for a process, and so is what returns its memory",
		"internal/clock.base":                          "the process's origin of monotonic time; set once, when the package is loaded",
		"internal/clock.current":                       "the text of the current second, shared by all servers so that it is made once",
		"internal/wire/h1.DefaultLimits":               "a struct cannot be a constant; passed by value",
		"internal/engine/enginetest.longestPattern":    "a constant of 32 MiB, made when it is needed first",
		"internal/engine/compact.stateWithoutExporter": "the state of a connection that has agreed on nothing, made when it is needed first",
		"internal/engine/uring.Obstacle":               "the kernel is one for a process, and probed once",
		"internal/engine/choose.toldMultipath":         "one line of the log for all servers of a process",
		"prefork.startedAsChild":                       "whether the process is a worker is found out once, before anything can inherit its marker or its sockets",
		"prefork.holderSocket":                         "whether the process is a manager is found out once, before anything can inherit its socket",
		"shared.process":                               "what workers share is one for a process; prefork sets it before user code asks for it",
		"stackless.writers":                            "the goroutines that all writers of a process share: a set for each would bound nothing",

		// The shim's copies of root's variables.
		"contrib/fasthttp.CookieExpireDelete":       "exported as fasthttp's variable of that name",
		"contrib/fasthttp.CookieExpireUnlimited":    "exported as fasthttp's variable of that name",
		"contrib/fasthttp.DefaultTransport":         "exported as fasthttp's variable of that name",
		"contrib/fasthttp.FSCompressedFileSuffixes": "exported as fasthttp's variable of that name",
		"contrib/fasthttp.NetHttpFormValueFunc":     "exported as fasthttp's variable of that name",
	}
}

// ruleFor returns the rule of the package in dir: its own, or the one of the
// closest subtree above it.
func (r *rules) ruleFor(dir string) (packageRule, bool) {
	key, ok := keyFor(r.packages, dir)
	return r.packages[key], ok
}

// keyFor returns the key of the table that is about the package in dir: the package's own,
// or that of the closest subtree above it.
func keyFor[T any](table map[string]T, dir string) (key string, ok bool) {
	if _, ok := table[dir]; ok {
		return dir, true
	}
	for parent := dir; strings.Contains(parent, "/"); {
		parent = parent[:strings.LastIndexByte(parent, '/')]
		if _, ok := table[parent+"/..."]; ok {
			return parent + "/...", true
		}
	}
	return "", false
}

// ownDir reports whether importPath is a package of this repository, and in which
// folder.
func (r *rules) ownDir(importPath string) (dir string, own bool) {
	if importPath == r.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, r.module+"/")
}

// within reports whether path is root or below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

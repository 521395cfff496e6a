package seeds

// publishedSource says where the published figures are from.
const publishedSource = "Published: fasthttp's README, \"HTTP server performance comparison with net/http\" and \"HTTP client comparison with net/http\", measured with -benchtime=10s on a machine that it does not name."

// times are what a case took, in ns/op.
type times struct{ fasthttp, netHTTP int }

// A publication is what the README says of a case.
type publication struct {
	name      string
	one, four times // at GOMAXPROCS 1 and 4
}

// at returns what was published for a value of GOMAXPROCS; zeros: nothing.
func (p publication) at(procs string) times {
	switch procs {
	case "1":
		return p.one
	case "4":
		return p.four
	}
	return times{}
}

// publishedServers returns the README's figures of servers.
func publishedServers() []publication {
	return []publication{
		{"Get1ReqPerConn", times{1559, 12052}, times{1141, 4529}},
		{"Get2ReqPerConn", times{1248, 12278}, times{707, 3896}},
		{"Get10ReqPerConn", times{797, 8903}, times{341, 3145}},
		{"Get10KReqPerConn", times{716, 8451}, times{310, 3054}},
		{"Get1ReqPerConn10KClients", times{1974, 26733}, times{1119, 10321}},
		{"Get2ReqPerConn10KClients", times{1352, 23351}, times{644, 7556}},
		{"Get10ReqPerConn10KClients", times{789, 13390}, times{346, 3905}},
		{"Get100ReqPerConn10KClients", times{604, 13484}, times{282, 3435}},
	}
}

// publishedClients returns the README's figures of clients.
func publishedClients() []publication {
	return []publication{
		{"DoFastServer", times{865, 12567}, times{397, 8774}},
		{"GetEndToEnd1TCP", times{18711, 67030}, times{7388, 22951}},
		{"GetEndToEnd10TCP", times{14664, 51098}, times{6689, 19182}},
		{"GetEndToEnd100TCP", times{14043, 45096}, times{4927, 16535}},
		{"GetEndToEnd1Inmemory", times{3965, 24779}, times{1604, 14495}},
		{"GetEndToEnd10Inmemory", times{4060, 26425}, times{1458, 10237}},
		{"GetEndToEnd100Inmemory", times{3396, 28515}, times{1329, 10125}},
		{"GetEndToEnd1000Inmemory", times{3306, 39511}, times{1316, 11132}},
	}
}

// publishedPrefork are the figures of the prefork packages' README: wrk with 512
// connections and 4 threads.
const publishedPrefork = "Published in the README of fasthttp's prefork package (a laptop with 4 cores): 104,861 requests/s with prefork and 97,553 without; " +
	"p50 4.55 and 4.53 ms, p99 15.49 and 74.54 ms; 318 and 265 read errors. The handler shown there sleeps for 100 ms, with which 512 connections " +
	"get 5,120 answers a second at most: the published figures must be those of a handler that does not sleep. Both are measured."

// Published rates and percentiles, for the plots.
const (
	publishedPreforkRate, publishedPlainRate = 104_861, 97_553
	publishedPreforkP99, publishedPlainP99   = 15.49, 74.54 // ms
)

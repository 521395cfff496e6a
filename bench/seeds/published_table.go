package main

// publishedSource says where the published figures are from.
const publishedSource = "Published: fasthttp's README, \"HTTP server performance comparison with net/http\" and \"HTTP client comparison with net/http\", measured with -benchtime=10s on a machine that it does not name."

// A publication is what the README says of a case, in ns/op.
type publication struct{ fasthttp, netHTTP int }

// publishedServers returns the README's figures by GOMAXPROCS and case.
func publishedServers() map[string]publication {
	return map[string]publication{
		"1 Get1ReqPerConn":             {1559, 12052},
		"1 Get2ReqPerConn":             {1248, 12278},
		"1 Get10ReqPerConn":            {797, 8903},
		"1 Get10KReqPerConn":           {716, 8451},
		"1 Get1ReqPerConn10KClients":   {1974, 26733},
		"1 Get2ReqPerConn10KClients":   {1352, 23351},
		"1 Get10ReqPerConn10KClients":  {789, 13390},
		"1 Get100ReqPerConn10KClients": {604, 13484},
		"4 Get1ReqPerConn":             {1141, 4529},
		"4 Get2ReqPerConn":             {707, 3896},
		"4 Get10ReqPerConn":            {341, 3145},
		"4 Get10KReqPerConn":           {310, 3054},
		"4 Get1ReqPerConn10KClients":   {1119, 10321},
		"4 Get2ReqPerConn10KClients":   {644, 7556},
		"4 Get10ReqPerConn10KClients":  {346, 3905},
		"4 Get100ReqPerConn10KClients": {282, 3435},
	}
}

// publishedClients returns the README's figures by GOMAXPROCS and case.
func publishedClients() map[string]publication {
	return map[string]publication{
		"1 DoFastServer":            {865, 12567},
		"1 GetEndToEnd1TCP":         {18711, 67030},
		"1 GetEndToEnd10TCP":        {14664, 51098},
		"1 GetEndToEnd100TCP":       {14043, 45096},
		"1 GetEndToEnd1Inmemory":    {3965, 24779},
		"1 GetEndToEnd10Inmemory":   {4060, 26425},
		"1 GetEndToEnd100Inmemory":  {3396, 28515},
		"1 GetEndToEnd1000Inmemory": {3306, 39511},
		"4 DoFastServer":            {397, 8774},
		"4 GetEndToEnd1TCP":         {7388, 22951},
		"4 GetEndToEnd10TCP":        {6689, 19182},
		"4 GetEndToEnd100TCP":       {4927, 16535},
		"4 GetEndToEnd1Inmemory":    {1604, 14495},
		"4 GetEndToEnd10Inmemory":   {1458, 10237},
		"4 GetEndToEnd100Inmemory":  {1329, 10125},
		"4 GetEndToEnd1000Inmemory": {1316, 11132},
	}
}

// publishedPrefork are the figures of the prefork packages' README: wrk with 512
// connections and 4 threads.
const publishedPrefork = "Published in the README of fasthttp's prefork package (a laptop with 4 cores): 104,861 requests/s with prefork and 97,553 without; " +
	"p50 4.55 and 4.53 ms, p99 15.49 and 74.54 ms; 318 and 265 read errors. The handler shown there sleeps for 100 ms, with which 512 connections " +
	"get 5,120 answers a second at most: the published figures must be those of a handler that does not sleep. Both are measured here."

// Published rates and percentiles, for the plots.
const (
	publishedPreforkRate, publishedPlainRate = 104_861, 97_553
	publishedPreforkP99, publishedPlainP99   = 15.49, 74.54 // ms
)

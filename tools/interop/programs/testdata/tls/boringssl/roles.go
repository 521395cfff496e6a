// Package runner is BoringSSL's: TestBoringSSL builds it with this file, and has it call
// keepServers and startLate.
package runner

import "strings"

// exchanged are the tests of the record layer in which the runner is the server. What they do
// wrong is not bound to a side, so with roles exchanged they are tests of a server.
var exchanged = []string{
	"AppDataBeforeHandshake", "AppDataBeforeHandshake-Empty",
	"KeyUpdate-*",
	"LargeCiphertext", "LargePlaintext", "LargePlaintext-TLS13-*",
	"Peek-*",
	"Renegotiate-Client-TLS13",
	"SendBogusAlertType", "SendEmptyRecords*", "SendInvalidRecordType", "SendUserCanceledAlerts-*", "SendWarningAlerts-TLS13",
	"SendPostHandshakeChangeCipherSpec-TLS13",
	"Shutdown-Runner-*", "Shutdown-Shim-KeyUpdate-*",
	"StrayHelloRequest-TLS13",
	"TLS-TLS13-*-BadRecord", "TLS-TLS13-*-LargeRecord",
	"TooManyKeyUpdates",
	"Unclean-Shutdown*",
}

// exchangedLate are such tests in which every record is wrong, so that no handshake would end.
// What they do wrong begins after it.
var exchangedLate = []string{
	"CheckRecordVersion-TLS13", "TLS13-EmptyRecords", "TLS13-OnlyPadding", "TLS13-RecordPadding", "TLS13-WrongOuterRecord",
}

// late is what tests do wrong after the handshake, by their names.
var late = make(map[string]ProtocolBugs)

// startLate is called after each handshake.
func startLate(test *testCase, config *Config) {
	if bugs, ok := late[test.name]; ok {
		config.Bugs = bugs
	}
}

// keepServers leaves the tests of servers over TCP that may speak TLS 1.3, with the exchanged
// ones, and addKeyUpdates.
func keepServers() {
	addKeyUpdates()
	var kept []testCase
	for _, test := range testCases {
		if test.protocol != tls || test.config.MaxVersion != 0 && test.config.MaxVersion < VersionTLS13 {
			continue
		}
		isLate := matches(exchangedLate, test.name)
		if test.testType == clientTest && (isLate || matches(exchanged, test.name)) {
			test.testType = serverTest
			test.name = strings.ReplaceAll(test.name, "Client", "Server") + "-Exchanged"
			if test.shimShutsDown || test.keyUpdateRequest == keyUpdateRequested {
				test.flags = append([]string{"-no-ticket"}, test.flags...) // the runner reads no other message
			}
			if isLate {
				late[test.name], test.config.Bugs = test.config.Bugs, ProtocolBugs{}
			}
		}
		if test.testType == serverTest {
			kept = append(kept, test)
		}
	}
	testCases = kept
}

func matches(patterns []string, name string) bool {
	matched, err := match(patterns, nil, name)
	if err != nil {
		panic(err)
	}
	return matched
}

// addKeyUpdates adds tests of KeyUpdates in parts, and of messages that look like one.
func addKeyUpdates() {
	for _, c := range []struct {
		name, err string
		bugs      ProtocolBugs
	}{
		{"Split", "", ProtocolBugs{MaxHandshakeRecordLength: 1}},
		{"AfterHelloRequest", ":UNEXPECTED_MESSAGE:", ProtocolBugs{SendHelloRequestBeforeEveryHandshakeMessage: true}},
		{"TrailingData", ":DECODE_ERROR:", ProtocolBugs{SendTrailingMessageData: typeKeyUpdate}},
		{"WrongType", ":UNEXPECTED_MESSAGE:", ProtocolBugs{SendWrongMessageType: typeKeyUpdate}},
	} {
		test := testCase{
			testType: serverTest, name: "KeyUpdate-" + c.name + "-Added", config: Config{MaxVersion: VersionTLS13}, flags: []string{"-no-ticket"},
			sendKeyUpdates: 3, messageCount: 3, keyUpdateRequest: keyUpdateRequested, shouldFail: c.err != "", expectedError: c.err,
		}
		late[test.name] = c.bugs
		testCases = append(testCases, test)
	}
}

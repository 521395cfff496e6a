package fieldlist

// A Violation is a rule that a list of fields breaks (RFC 9113 sections 8.1 to 8.3 and 8.5,
// RFC 9114 sections 4.1 to 4.4). The message is malformed: its stream ends with an error. The
// zero value is none.
type Violation uint8

// Those of a single field, in whatever message it is.
const (
	None Violation = iota
	ErrFieldName
	ErrFieldValue
	ErrConnectionOnly
	ErrTE
	ErrPseudoUnknown
	ErrMethod
	ErrScheme
	ErrPath
	ErrAuthority
	ErrStatus
	ErrProtocol
)

// Those of a list.
const (
	ErrPseudoOrder Violation = ErrProtocol + 1 + iota
	ErrPseudoRepeated
	ErrPseudoForbidden
	ErrPseudoMissing
	ErrNoAuthority
	ErrHostDisagrees
	ErrLength

	violations // their number
)

// Violations is the number of Violations, with None.
const Violations = int(violations)

var violationTexts = [...]string{
	None:               "no violation",
	ErrFieldName:       "field name is not a token in lower case",
	ErrFieldValue:      "invalid field value",
	ErrConnectionOnly:  "field that concerns only a connection",
	ErrTE:              "TE is not trailers",
	ErrPseudoUnknown:   "unknown pseudo-field",
	ErrMethod:          "method is not a token",
	ErrScheme:          "invalid scheme",
	ErrPath:            "invalid path",
	ErrAuthority:       "invalid authority",
	ErrStatus:          "invalid status",
	ErrProtocol:        "invalid protocol",
	ErrPseudoOrder:     "pseudo-field after a field",
	ErrPseudoRepeated:  "repeated pseudo-field",
	ErrPseudoForbidden: "pseudo-field that this message may not have",
	ErrPseudoMissing:   "pseudo-field is missing",
	ErrNoAuthority:     "neither authority nor host",
	ErrHostDisagrees:   "authority and host disagree",
	ErrLength:          "invalid or repeated content-length",
}

// Error describes the violation, without the name of a protocol.
func (v Violation) Error() string { return violationTexts[v] }

package reference

// A Table describes one table of a file. The table without a name is the top level.
type Table struct {
	// Name is the path of the table. NAME in it is a name that the administrator chooses.
	Name string
	// Text describes the table; "" if its keys suffice. As in [Key.Text], `code` is code.
	Text string
	// Like is the table whose keys have the same names and meanings. A table with Like describes
	// further keys only. In it, a missing key means the value of the table Like.
	Like string
	// Example is a table that the sample shows in a comment.
	Example string
	Keys    []Key
}

// A Key describes one key.
type Key struct {
	Name string
	// Text is the description. The sample has the first paragraph of it.
	Text string
	// Default describes a default that the struct does not have; "" is the value of the struct.
	Default string
	// Values are the words that the key can have. A key of another type than string can have other
	// values, too.
	Values []string
	// Range is the least and the largest value of a number or a duration. Zero is allowed in addition,
	// if it is set.
	Range [2]string
	Zero  bool
	// Example is a value in TOML, for keys whose default shows too little.
	Example string
}

func between(least, most string) [2]string { return [2]string{least, most} }

// A File is a kind of file with its tables.
type File struct {
	// Page is the name of the manual page, Path the path of the file, What the line after its name.
	Page, Path, What string
	Intro            []string
	Tables           []Table
	// Example and SeeAlso end the page.
	Example string
	SeeAlso []string
}

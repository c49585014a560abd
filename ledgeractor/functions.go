package ledgeractor

import "strings"

// The SQL functions that may be used are an allow-list, so that no update of SQLite brings another one: one that
// reaches outside of the database, or one that runs for hours and cannot be interrupted. A test measures each function for
// reads at growing arguments, and fails for one that is not linear, or not measured.

// readFunctions may be used everywhere. Those that SQLite itself computes in more than linear time are replaced on the
// connections for reads; see linear.go.
var readFunctions = names(`
	-> ->> abs avg changes char coalesce concat concat_ws count cume_dist current_date current_time current_timestamp date datetime
	dense_rank first_value format glob group_concat hex if ifnull iif instr json json_array json_array_insert json_array_length
	json_error_position json_extract json_group_array json_group_object json_insert json_object json_pretty json_quote json_remove
	json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object
	jsonb_insert jsonb_object jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead length like likelihood
	likely lower ltrim match matchinfo max min nth_value ntile nullif octet_length offsets percent_rank printf quote random randomblob
	rank replace round row_number rtrim sign snippet sqlite_source_id sqlite_version strftime string_agg substr substring subtype sum
	time timediff total total_changes trim typeof unhex unicode unistr unistr_quote unixepoch unlikely upper zeroblob
`)

// builtFunctions are those that a driver has which was built with the tags sqlite_math_functions, sqlite_percentile or
// sqlite_fts5. They may be used everywhere.
var builtFunctions = names(`
	acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power radians sin sinh
	sqrt tan tanh trunc median percentile percentile_cont percentile_disc bm25 highlight fts5_source_id fts5_get_locale fts5_locale
`)

// codeFunctions are for application code only: they are not linear, or look at the whole database.
var codeFunctions = names(`
	json_patch jsonb_patch optimize rtreecheck rtreedepth rtreenode sqlite_compileoption_get sqlite_compileoption_used
`)

// alterFunctions are those that SQLite itself uses for ALTER TABLE; no statement can call them.
var alterFunctions = names(`
	raise sqlite_add_constraint sqlite_drop_column sqlite_drop_constraint sqlite_fail sqlite_find_constraint sqlite_rename_column
	sqlite_rename_quotefix sqlite_rename_table sqlite_rename_test
`)

func names(list string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range strings.Fields(list) {
		set[name] = true
	}
	return set
}

// readMayCall reports whether a read may call a function.
func readMayCall(function string) bool {
	function = strings.ToLower(function)
	return readFunctions[function] || builtFunctions[function]
}

// codeMayCall reports whether application code may call a function. (RAISE in a trigger counts as one.)
func codeMayCall(function string) bool {
	function = strings.ToLower(function)
	return readFunctions[function] || builtFunctions[function] || codeFunctions[function] || alterFunctions[function]
}

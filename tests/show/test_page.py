"""The page in a real browser: sorting, filtering, no errors, no requests; and what it says, for readers without JavaScript."""

import base64
import html
import io
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from urllib.parse import unquote

import pandas
import pytest

import taddaa
from browser import browser  # noqa: F401
from sample_reports import NASTY, clean_report, demo_report, doubtful_report, wide_report
from taddaa.show import sections, series, svg
from taddaa.show.markup import SYMBOL
from taddaa.show.page import report_to_fragment, report_to_html
from taddaa.verdict.outcome import ERROR, NO_ERROR, UNTRUSTED, VERDICTS, WITHIN

REPORTS = {"demo": demo_report, "wide": wide_report, "doubtful": doubtful_report, "clean": clean_report}
VOID = {"meta", "link", "input", "br", "img"}


class Balanced(HTMLParser):
    """Collects tags, text and attributes, and insists that every element is closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(params=REPORTS)
def page(request):
    return report_to_html(REPORTS[request.param]())


def test_the_page_may_send_nothing_and_has_no_other_base():
    policy = report_to_html(clean_report()).partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert {"default-src 'none'", "base-uri 'none'", "form-action 'none'"} <= set(policy.split("; "))


def test_page_is_well_formed_and_fetches_nothing(page):
    parsed = Balanced(page)
    assert parsed.tags.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    for name, value in parsed.attributes:
        assert not name.startswith("on")
        assert name != "style"
        if name in ("src", "href"):
            assert value == "data:," or value.startswith("data:text/csv;") or value[1:] in {v for n, v in parsed.attributes if n == "id"}
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", page).replace("https", "http").split("<main>")[0]


def test_wide_page_is_small_and_quick():
    report = wide_report()
    started = time.perf_counter()
    text = report_to_html(report)
    assert time.perf_counter() - started < 3
    assert len(text.encode()) < 1_000_000
    assert text.count("<tr data-verdict") == 400


def test_words_match_the_verdicts():
    said = {name: " ".join(Balanced(report_to_html(make())).words) for name, make in REPORTS.items()}
    assert "Large errors found" in said["demo"] and "Do not use (5)" in said["demo"] and "Use (5)" in said["demo"]
    assert "wrong about the 5 quantities" in said["demo"]
    assert "may stand in for posterior draws" in said["demo"]
    assert "Could not be judged" in said["doubtful"]
    assert "Nothing yet" in said["doubtful"]
    assert "Why untrusted" in said["doubtful"]
    assert "Why untrusted" not in said["clean"]
    assert all("not proof of accuracy" in words for words in said.values())


def with_verdicts(*verdicts):
    """The demo's report with other verdicts on its first rows; what is untrusted has no right value."""
    nan = float("nan")
    unknown = {"corrected": nan, "corrected_lower": nan, "corrected_upper": nan, "reason": "a reason"}
    rows = [
        replace(row, verdict=verdict, **(unknown if verdict == UNTRUSTED else {}))
        for row, verdict in zip(demo_report().rows, verdicts, strict=False)
    ]
    return replace(demo_report(), rows=(*rows, *demo_report().rows[len(rows) :]))


def of_one_verdict(verdict):
    return with_verdicts(*[verdict] * 10)


def test_each_verdict_has_its_own_word_symbol_class_and_colour():
    for table in (sections.TITLE, SYMBOL, svg.CLASS):
        assert set(table) == set(VERDICTS)
        assert len(set(table.values())) == len(VERDICTS)
    style = resources.files("taddaa.show").joinpath("page.css").read_text(encoding="utf-8")
    for kind in svg.CLASS.values():
        assert len(set(re.findall(rf"--{kind}:(#\w+)", style))) == 2  # light and dark
        assert f".{kind}-ink{{color:var(--{kind})}}" in style and f"svg .{kind}{{stroke:var(--{kind})}}" in style
    colours = [re.findall(rf"--{kind}:(#\w+)", style) for kind in svg.CLASS.values()]
    assert all(len(set(each)) == len(VERDICTS) for each in zip(*colours, strict=True))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_page_of_each_verdict(verdict):
    text = report_to_html(of_one_verdict(verdict))
    kind = svg.CLASS[verdict]
    title = "Large errors found" if verdict == ERROR else sections.TITLE[verdict]
    assert f'<section id="answer" class="verdict {kind}"><strong>{title}</strong>' in text
    assert text.count(f'<td class="word {kind}-ink"') + (verdict == ERROR) * text.count('<td class="word slight-ink"') >= 10
    assert f'<span class="{kind}-ink">{SYMBOL[verdict]} 10 ' in text
    assert f'class="mark {kind}"' in text and f"<option>{verdict}</option>" in text
    words = " ".join(Balanced(text).words)
    assert ("can be used: surely wrong by less than 0.1 standard deviations (0.15 in log variance)." in words) == (verdict == WITHIN)
    assert ("can be used in place of the approximation's" in words) == (verdict != UNTRUSTED)


def test_a_fit_that_is_far_is_told_first():
    far = tuple(replace(check, passed=False) if check.name == "near the posterior" else check for check in demo_report().checks)
    assert any(not check.passed for check in far)
    assert "<strong>Far from the posterior</strong>" in report_to_html(replace(demo_report(), checks=far))


def test_right_values_stand_in_the_table_and_what_is_not_known_in_brackets():
    report = with_verdicts(UNTRUSTED, WITHIN)
    known = replace(report.rows[1], corrected=-0.131, corrected_lower=-0.148, corrected_upper=-0.114)
    text = report_to_html(replace(report, rows=(report.rows[0], known, *report.rows[2:])))
    assert '<td data-v="-0.131">−0.131 ± 0.017</td>' in text
    moved = report.rows[0].moved
    assert f'<td data-v="{moved:.6g}"><span class="soft">({moved:.3g})</span></td>'.replace("(-", "(−") in text


def test_the_forest_has_the_tolerance_of_each_row():
    report = of_one_verdict(WITHIN)
    shown = series.forest(report)
    bands = re.findall(r'<rect class="band" x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="20"/>', svg.forest(shown))
    assert len(bands) == 10
    means, variances = (
        {w for (_, _, w), row in zip(bands, shown.rows, strict=True) if row.functional == kind} for kind in ("mean", "variance")
    )
    (mean,), (variance,) = means, variances
    assert float(variance) / float(mean) == pytest.approx(1.5, rel=0.01)
    wider = replace(report, provenance=replace(report.provenance, settings="mean_tolerance=0.3, variance_tolerance=0.15"))
    assert set(series.forest(wider).tolerance) == {0.3, 0.15}


def test_table_says_which_side_and_how_much():
    text = report_to_html(demo_report())
    row = next(row for row in demo_report().rows if row.parameter == "intercept" and row.functional == "variance")
    assert f"factor {2.718281828459045**row.bound:.3g} too small" in text
    assert re.search(r"factor [\d.]+ too large", text)


def test_untrusted_rows_state_no_error():
    assert "too small" not in "".join(re.findall(r'<td class="word said".*?</td>', report_to_html(doubtful_report())))


@pytest.mark.parametrize("name", NASTY)
def test_nasty_names_are_text(name):
    text = report_to_html(wide_report())
    assert html.escape(name, quote=True) in text
    if "<" in name:
        assert name not in text
    assert name in "".join(Balanced(text).words)
    fragment = report_to_fragment(wide_report())
    assert "<script" not in fragment
    Balanced(fragment)


def test_control_characters_and_broken_unicode_do_not_break_the_page():
    rows = tuple(replace(row, parameter=f"a\x00b\x1b[31m\ud800\u202e{i}") for i, row in enumerate(demo_report().rows))
    text = report_to_html(replace(demo_report(), rows=rows))
    assert "\x00" not in text
    assert "\u202e" not in text
    text.encode("utf-8")
    Balanced(text)


def test_infinite_and_missing_numbers_are_shown():
    inf, nan = float("inf"), float("nan")
    rows = (replace(clean_report().rows[0], lower=-inf, upper=inf, detectable=inf, moved=nan), *clean_report().rows[1:])
    text = report_to_html(replace(clean_report(), rows=rows))
    assert "∞" in text
    Balanced(text)


def test_very_many_rows_are_cut_and_counted():
    rows = clean_report().rows * 600
    paths = clean_report().paths
    many = {name: getattr(paths, name).repeat(600, axis=-1) for name in ("estimate", "error", "rho2", "reference", "unit")}
    report = replace(clean_report(), rows=tuple(replace(row) for row in rows), paths=replace(paths, **many))
    assert "The worst 2000 of 2400 quantities" in report_to_html(report)


def test_to_html_and_notebook(tmp_path):
    report = demo_report()
    report.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report_to_html(report)
    shown = report._repr_html_()
    assert html.escape(report.headline.partition(" Worst:")[0]) in shown
    assert shown.count("<tr data-verdict") == 10
    with pytest.raises(taddaa.InputError, match="cannot be written"):
        report.to_html(tmp_path / "none" / "page.html")


def test_the_csv_has_every_row_and_runs_nothing():
    report = wide_report()
    address = html.unescape(re.search(r'download="taddaa-report.csv" href="([^"]*)"', report_to_html(report))[1])
    table = pandas.read_csv(io.StringIO(unquote(address.partition(",")[2])), keep_default_na=False)
    assert list(table.columns) == list(report.to_dataframe().columns)
    assert len(table) == len(report.rows)
    assert "'= cmd" in set(table.parameter) and "= cmd" not in set(table.parameter)
    beta = table[(table.parameter == "beta[5]") & (table.functional == "variance")].iloc[0]
    row = next(row for row in report.rows if (row.parameter, row.functional) == ("beta[5]", "variance"))
    assert float(beta.bound) == row.bound and beta.verdict == row.verdict


def test_failed_checks_have_pictures_of_what_they_measured():
    text = report_to_html(doubtful_report())
    assert "What failed checks measured" in text and "forgot the start: should be below 0.19" in text
    assert "What failed checks measured" not in report_to_html(demo_report())
    found = {one.check.name: one for one in series.statistics(doubtful_report())}
    memory = found["forgot the start"]
    assert list(memory.value) == sorted(memory.check.each, reverse=True)
    assert [memory.check.each[doubtful_report().rows.index(row)] for row in memory.rows] == list(memory.value)


def test_looking_closer_shows_density_way_and_checks():
    demo, doubtful = report_to_html(demo_report()), report_to_html(doubtful_report())
    assert demo.count("<details>") == 10 and demo.count("every check of it passed") == 10
    assert "settled: 9.8, should be below 2.7" in doubtful.partition('id="closer"')[2].partition("</section>")[0]
    assert report_to_html(wide_report()).count("<details>") == sections.MOST_CLOSER


def test_the_notebook_has_the_answer_colours_and_advice():
    shown = report_to_fragment(doubtful_report())
    assert "Could not be judged (4)" in shown and ".untrusted-ink{color:#" in shown
    assert html.escape(doubtful_report().advice[0].python) in shown and "What next" in shown
    for rule in re.search(r"<style>(.*?)</style>", shown)[1].split("}"):
        assert all(part.startswith(".taddaa-report ") for part in rule.partition("{")[0].split(",") if part)


def test_a_notebook_says_once_that_all_checks_passed():
    assert report_to_fragment(demo_report()).count("All checks passed") == 1
    assert "Failed checks: settled: " in report_to_fragment(doubtful_report())


def test_ticks_are_round_and_inside():
    assert list(svg.ticks(0, 1)) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert all(-3 <= tick <= 17 for tick in svg.ticks(-3, 17))
    assert list(svg.ticks(1, 1)) == []


# In the browser -------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser, tmp_path):  # noqa: F811
    """A function that opens a report's page and checks, when the test is over, that it was quiet."""
    browser.log("browser")

    def show(report, width=1280, height=900, scheme="light"):
        path = tmp_path / "page.html"
        path.write_text(report_to_html(report), encoding="utf-8")
        browser.view(width, height, scheme)
        browser.requests()
        browser.open(path)
        assert {address for address in browser.requests() if address.startswith(("http", "file", "ws", "ftp"))} == {path.as_uri()}
        return browser

    yield show
    assert [entry["message"] for entry in browser.log("browser")] == []


CELLS = "return [...document.querySelectorAll('#quantities tbody tr:not([hidden])')].map(r => r.cells[arguments[0]].textContent)"
SORT = "document.querySelectorAll('#quantities th button')[arguments[0]].click()"
SET = "const c = document.getElementById(arguments[0]); c.value = arguments[1]; c.dispatchEvent(new Event('input'))"


def test_browser_would_notice_errors_and_requests(browser, tmp_path):  # noqa: F811
    path = tmp_path / "bad.html"
    path.write_text('<script>throw new Error("seen")</script><img src="http://127.0.0.1:9/leak.png">')
    browser.open(path)
    assert any("seen" in entry["message"] for entry in browser.log("browser"))
    assert "http://127.0.0.1:9/leak.png" in browser.requests()


def test_sorting(opened):
    browser = opened(demo_report())  # noqa: F811
    worst = browser.run(CELLS, 0)
    assert worst == [row.parameter for row in demo_report().worst()]
    browser.run(SORT, 5)  # right value, largest first
    right = [float(text.replace("−", "-").split(" ± ")[0]) for text in browser.run(CELLS, 5)]
    assert right == sorted(right, reverse=True)
    browser.run(SORT, 5)
    right = [float(text.replace("−", "-").split(" ± ")[0]) for text in browser.run(CELLS, 5)]
    assert right == sorted(right)
    browser.run(SORT, 0)
    assert browser.run(CELLS, 0)[0] == "cucumber"
    assert browser.run("return document.querySelectorAll('th[aria-sort]').length") == 1


def test_filtering(opened):
    report = wide_report()
    browser = opened(report)  # noqa: F811
    assert len(browser.run(CELLS, 0)) == 400
    browser.run(SET, "search", "BETA[19")
    expected = {f"beta[{i}]" for i in (19, 190, 191, 192)}
    assert set(browser.run(CELLS, 0)) == expected
    browser.run(SET, "functional", "variance")
    assert len(browser.run(CELLS, 0)) == 4
    assert browser.run("return document.getElementById('shown').textContent") == "4 of 400 shown"
    browser.run(SET, "search", "")
    browser.run(SET, "functional", "")
    for verdict in {row.verdict for row in report.rows}:
        browser.run(SET, "verdict", verdict)
        assert len(browser.run(CELLS, 0)) == sum(row.verdict == verdict for row in report.rows) > 0


def test_filtering_by_every_verdict(opened):
    browser = opened(with_verdicts(WITHIN, WITHIN, WITHIN, UNTRUSTED, UNTRUSTED, NO_ERROR, ERROR, ERROR, ERROR, ERROR))  # noqa: F811
    for verdict, count in {WITHIN: 3, UNTRUSTED: 2, NO_ERROR: 1, ERROR: 4}.items():
        browser.run(SET, "verdict", verdict)
        called = [text.removeprefix(f"{SYMBOL[verdict]} ") for text in browser.run(CELLS, 3)]
        assert len(called) == count and all(text.endswith(verdict) and (text != verdict) == (verdict == ERROR) for text in called)


def test_a_notebooks_own_rules_do_not_tear_the_answer_apart(browser, tmp_path):  # noqa: F811
    """Jupyter lays terms beside their descriptions, a fifth of the width each, and all cells to the right."""
    rules = "<style>.n dt{float:left;width:20%} .n dd{float:left;width:80%} .n td,.n th{text-align:right}</style>"
    path = tmp_path / "notebook.html"
    path.write_text(f'<meta charset="utf-8">{rules}<div class="n">{report_to_fragment(demo_report())}</div>', encoding="utf-8")
    for width in (1440, 390):
        browser.view(width, 900)
        browser.open(path)
        ends = browser.run(
            "return [...document.querySelectorAll('dt, dd')].map(e => [e.getBoundingClientRect().top, e.getBoundingClientRect().bottom])"
        )
        assert len(ends) >= 4 and all(below[0] >= above[1] - 1 for above, below in pairwise(ends))
        assert browser.run("return [...document.querySelectorAll('dt, dd')].every(e => getComputedStyle(e).float === 'none')")
        assert browser.run("return getComputedStyle(document.querySelector('td')).textAlign") == "left"


def test_nasty_names_in_the_browser(opened):
    browser = opened(wide_report())  # noqa: F811
    assert browser.run("return document.title").startswith("TADDAA")
    shown = set(browser.run(CELLS, 0))
    assert set(NASTY) <= shown


def test_reading_needs_no_javascript(opened):
    browser = opened(demo_report())  # noqa: F811
    browser.scripts(enabled=False)
    try:
        browser = opened(demo_report())
    finally:
        browser.scripts(enabled=True)
    assert browser.run("return getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert browser.run("return document.querySelectorAll('#quantities tbody tr').length") == 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
@pytest.mark.parametrize("name", [*REPORTS, "four verdicts"])
def test_page_never_scrolls_sideways_and_is_legible(opened, name, width, scheme):
    report = REPORTS[name]() if name in REPORTS else with_verdicts(ERROR, UNTRUSTED, NO_ERROR, WITHIN)
    browser = opened(report, width, 844, scheme)  # noqa: F811
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(CUT) == []
    assert browser.run(CONTRAST) > 4.5


# Texts that their own box, or a box around them that does not scroll, cuts off at the right.
CUT = """
const found = [];
const texts = 'p, li, dt, dd, strong, h2, h3, summary, td, th';
for (const e of document.querySelector('main').querySelectorAll(texts)) {
  if (!e.getClientRects().length) continue;
  if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline') found.push(e.textContent.slice(0, 60));
  const edge = e.closest('.scroll');
  const right = e.getBoundingClientRect().right, words = e.textContent.slice(0, 60);
  if (right > document.documentElement.clientWidth + 1 && !edge) found.push('outside: ' + words);
  if (edge && e.closest('#quantities') && right > edge.getBoundingClientRect().right + 1) found.push('hidden: ' + words);
}
return found.slice(0, 5);
"""


def test_the_answer_and_what_next_lead_on_a_phone(opened):
    for report in (demo_report(), doubtful_report(), wide_report()):
        browser = opened(report, 390, 844)  # noqa: F811
        places = browser.run(
            "return ['answer', 'next', 'every', 'pictures'].map(i => document.getElementById(i).getBoundingClientRect().top)"
        )
        assert places == sorted(places) and places[0] < 200 and places[1] < 1500


def test_printed_pages_are_few_and_have_every_column(opened):
    browser = opened(wide_report())  # noqa: F811
    printed = base64.b64decode(browser.printed())
    assert 1 < printed.count(b"/Type /Page\n") <= 14
    browser.media("print")
    try:
        shown = "return [...document.querySelectorAll('#quantities tbody tr')].filter(r => r.getClientRects().length).length"
        assert browser.run(shown) == sections.PRINTED
        assert browser.run("return [...document.querySelectorAll('#quantities th')].every(h => h.getClientRects().length > 0)")
        assert browser.run("return getComputedStyle(document.querySelector('#quantities thead')).display") == "table-header-group"
        assert browser.run("return getComputedStyle(document.querySelector('.tall')).overflowY") == "visible"
        # Chromium repeats no heading with a button in it, and leaves titles alone at a page's end where what follows lets it.
        assert browser.run("return getComputedStyle(document.querySelector('#quantities th button')).display") == "contents"
        together = "[...document.querySelectorAll('h2, h3, #every > p')].every(e => getComputedStyle(e).breakAfter === 'avoid')"
        assert browser.run(f"return {together}")
    finally:
        browser.media("")


def test_the_keyboard_reaches_links_sorting_and_details(opened):
    browser = opened(demo_report())  # noqa: F811
    links = browser.run("return [...document.querySelectorAll('nav a')].map(a => !!document.querySelector(a.getAttribute('href')))")
    assert len(links) == 8 and all(links)
    reach = "[...document.querySelectorAll('nav a, th button, summary, .tall')].every(e => (e.focus(), document.activeElement === e))"
    assert browser.run(f"return {reach}")


CONTRAST = """
const light = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = element => {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== 'rgba(0, 0, 0, 0)') return light(colour);
  }
  return 1;
};
let worst = 21;
for (const e of document.querySelectorAll('main *:not(svg):not(svg *)')) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const a = light(getComputedStyle(e).color), b = ground(e);
  worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
}
return worst;
"""

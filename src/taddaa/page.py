def report_to_html(report):
    return "<!doctype html>\n" + str(report)

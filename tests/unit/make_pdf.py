"""Small PDFs, written by hand, so that a test says what is on each page."""

from collections.abc import Mapping, Sequence


def make_pdf(
    pages: Sequence[bytes],
    *,
    to_unicode: Mapping[int, str] | None = None,
    labels: str = "",
    title: str | None = None,
) -> bytes:
    """A PDF with one line of Helvetica a page.

    Args:
        pages: The character codes of each page's line; empty for a blank page.
        to_unicode: UTF-16BE hex by character code, for the font's ToUnicode map.
        labels: The /Nums array of /PageLabels, in PDF syntax.
        title: The document's /Title.
    """
    n = len(pages)
    first_page = 5
    kids = " ".join(f"{first_page + 2 * i} 0 R" for i in range(n))
    catalog = "<</Type/Catalog/Pages 2 0 R" + (f"/PageLabels<</Nums[{labels}]>>" if labels else "") + ">>"
    entries = "\n".join(f"<{code:02X}> <{hexa}>" for code, hexa in (to_unicode or {}).items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def "
        f"1 begincodespacerange <00> <FF> endcodespacerange {len(to_unicode or {})} beginbfchar\n{entries}\n"
        "endbfchar endcmap end end"
    )
    info = b"<<" + (b"/Title<feff" + title.encode("utf-16-be").hex().encode() + b">" if title else b"") + b">>"
    objects = [
        catalog.encode(),
        f"<</Type/Pages/Kids[{kids}]/Count {n}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 4 0 R>>",
        _stream(cmap.encode()),
    ]
    for i, codes in enumerate(pages):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (first_page + 2 * i + 1)
        )
        objects.append(_stream(b"BT /F1 12 Tf 50 700 Td <%s> Tj ET" % codes.hex().encode() if codes else b""))
    objects.append(info)
    out = b"%PDF-1.7\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer<</Size %d/Root 1 0 R/Info %d 0 R>>" % (size, len(objects))
    out_of_use = b"0000000000 65535 f \n"
    end = b"%s\nstartxref\n%d\n%%%%EOF" % (trailer, len(out))
    return out + b"xref\n0 %d\n" % size + out_of_use + table + end


def _stream(content: bytes) -> bytes:
    return b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
